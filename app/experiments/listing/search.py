"""What may be asked of the list of experiments: words, states, verdicts, owners, tags, an order and a place in it."""

from enum import StrEnum
from typing import Annotated, Any, Final

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, StringConstraints

from app.domain.lifecycle import ExperimentState
from app.domain.vocabulary import Name, Sha256, VerdictWord

TAG_PATTERN: Final = r"^[a-z0-9][a-z0-9._:/-]{0,39}$"
TAG_RULE: Final = "1 to 40 of lower-case letters, digits and . _ : / -, beginning with a letter or a digit"
TAGS_MAX: Final = 16
WORDS_MAX: Final = 200

Tag = Annotated[str, StringConstraints(pattern=TAG_PATTERN)]
Tags = Annotated[
    list[Tag],
    Field(max_length=TAGS_MAX, description=f"At most {TAGS_MAX}, each {TAG_RULE}."),
    AfterValidator(lambda tags: sorted(set(tags))),
]


class Archived(StrEnum):
    """Whether archived experiments are listed."""

    HIDDEN = "hidden"
    SHOWN = "shown"
    ONLY = "only"


class Order(StrEnum):
    """What comes first."""

    NEWEST = "newest"
    OLDEST = "oldest"
    NAME = "name"
    ENDED = "ended"
    """Those that are not over first, then the latest end."""


def _absent(value: Any) -> Any:
    """A form sends an input that was left empty, too."""
    return None if value == "" else value


_Absent = BeforeValidator(_absent)


class Search(BaseModel):
    """All of it: every part narrows the list further."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    q: Annotated[
        str,
        StringConstraints(strip_whitespace=True, max_length=WORDS_MAX, pattern=r"^[^\x00-\x1f\x7f]*$"),
        Field(description="Each word must be in the name, id, owner, target model, a draft, a method or a tag."),
    ] = ""
    state: Annotated[ExperimentState | None, _Absent] = None
    word: Annotated[
        VerdictWord | None, _Absent, Field(description="Some arm has this verdict; of experiments that are over.")
    ] = None
    owner: Annotated[Name | None, _Absent] = None
    tag: Annotated[Tag | None, _Absent] = None
    archived: Archived = Archived.HIDDEN
    sort: Order = Order.NEWEST
    cursor: Annotated[Sha256 | None, _Absent, Field(description="What follows this experiment; `next_cursor`.")] = None
    before: Annotated[
        Sha256 | None, _Absent, Field(description="What precedes this experiment; `previous_cursor`. Not with cursor.")
    ] = None

    @property
    def narrows(self) -> bool:
        """Whether it leaves experiments out that would be listed otherwise."""
        return self != Search(archived=self.archived, sort=self.sort, cursor=self.cursor, before=self.before)


class ApiSearch(Search):
    """The same for the API, which also says how many it takes at once."""

    limit: Annotated[int, Field(ge=1, le=100)] = 20
    fields: str | None = None
    """Read by the route's ``sparse``; named here since a query of this model forbids what it does not name."""
