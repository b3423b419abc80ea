"""What the API says of figures; a report is its own schema."""

from pydantic import BaseModel, ConfigDict


class FigureRead(BaseModel):
    """A figure that the report can draw."""

    model_config = ConfigDict(frozen=True)

    name: str
    url: str
