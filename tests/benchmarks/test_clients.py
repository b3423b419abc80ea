"""What each of the field's load generators wrote about three requests, one of them refused, and what we read of it."""

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from benchmarks.replay.clients.aiperf import Aiperf
from benchmarks.replay.clients.evalscope import Evalscope
from benchmarks.replay.clients.guidellm import Guidellm
from benchmarks.replay.clients.inference_perf import InferencePerf
from benchmarks.replay.clients.place import ROOT
from benchmarks.replay.clients.vllm_bench import VllmBench
from benchmarks.replay.offer import LoadGenerator, Offer

WRITTEN = ROOT / "tests" / "fixtures" / "rivals"
INPUTS = sorted((ROOT / "benchmarks" / "replay" / "clients").glob("*.in"))
CLIENTS = (VllmBench(), Guidellm(), Aiperf(), InferencePerf(), Evalscope())


@pytest.fixture
def offer(tmp_path: Path) -> Offer:
    return Offer(
        rate_rps=8.0, requests=3, tokens=4, port=1, model="null", tokenizer=Path("/tokenizer"), directory=tmp_path
    )


def _place(offer: Offer, name: str, under: str = ".") -> None:
    directory = offer.directory / under
    directory.mkdir(parents=True, exist_ok=True)
    shutil.copy(WRITTEN / name, directory)


def test_vllm_leaves_a_failed_request_in_its_place(offer: Offer) -> None:
    _place(offer, "vllm.json")
    reported = VllmBench().reported(offer)
    assert reported.ttft_ns == (22_308_037, 22_628_317)
    gaps_ns = (10_031_648, 9_964_382, 10_130_754, 9_973_540, 9_948_151, 10_237_043)
    assert reported.gaps_ns == pytest.approx(gaps_ns, abs=1)
    assert reported.request_ids == ("bench-0", "bench-2")
    assert not reported.gaps_are_means


def test_guidellm_keeps_one_mean_a_request(offer: Offer) -> None:
    _place(offer, "guidellm.json")
    reported = Guidellm().reported(offer)
    # 1796012934.9532638 s - 1796012934.9319692 s = 21.2946 ms, to the 0.24 us of its clock's floating point.
    assert reported.ttft_ns == (21_294_594, 21_564_484)
    # (….983237 - ….9532638) s / 3 gaps = 9.9911 ms.
    assert reported.gaps_ns == pytest.approx((9_991_090, 10_573_467), abs=1)
    assert reported.gaps_are_means


def test_aiperf_writes_a_record_a_line(offer: Offer) -> None:
    _place(offer, "profile_export.jsonl")
    reported = Aiperf().reported(offer)
    assert reported.ttft_ns == (39_814_116, 29_193_613)
    gaps_ns = (6_310_627, 13_411_288, 7_781_187, 8_844_511, 11_157_169, 9_859_526)
    assert reported.gaps_ns == pytest.approx(gaps_ns, abs=1)
    assert reported.request_ids == ("0a27f570-0ee2-49fc-908c-8c424c65560f", "8097bacb-7abb-4e22-a356-4fee6d2ea38d")


def test_inference_perf_writes_moments(offer: Offer) -> None:
    _place(offer, "per_request_lifecycle_metrics.json", "reports")
    reported = InferencePerf().reported(offer)
    # ….984077113 - ….958119881 = 25.957232 ms; ….078863178 - ….056335219 = 22.527959 ms.
    assert reported.ttft_ns == (25_957_232, 22_527_959)
    gaps_ns = (9_949_012, 9_932_432, 11_885_997, 8_261_978, 13_295_130, 6_800_006)
    assert reported.gaps_ns == pytest.approx(gaps_ns, abs=1)


def test_evalscope_writes_a_database(offer: Offer) -> None:
    directory = offer.directory / "evalscope" / "rate_8.0_number_3"
    directory.mkdir(parents=True)
    with closing(sqlite3.connect(directory / "benchmark_data.db")) as database:
        database.executescript((WRITTEN / "benchmark_data.sql").read_text())
    reported = Evalscope().reported(offer)
    assert reported.ttft_ns == (24_623_982, 22_183_944)
    gaps_ns = (10_027_490, 9_904_850, 10_237_764, 9_956_337, 9_963_971, 10_166_020)
    assert reported.gaps_ns == pytest.approx(gaps_ns, abs=1)
    assert reported.request_ids == ("0", "1")


@pytest.mark.parametrize("client", CLIENTS, ids=lambda client: client.name)
def test_a_client_that_wrote_nothing_is_an_os_error(client: LoadGenerator, offer: Offer) -> None:
    with pytest.raises(OSError, match=r".+"):
        client.reported(offer)


def test_results_of_another_form_are_a_value_error(offer: Offer) -> None:
    (offer.directory / "vllm.json").write_text('{"ttfts": [0.1]}')
    with pytest.raises(ValueError, match="another form"):
        VllmBench().reported(offer)


def test_arrivals_given_as_a_trace_are_constant(offer: Offer) -> None:
    InferencePerf().prepare(offer)
    _, *rows = (offer.directory / "arrivals.csv").read_text().splitlines()
    assert [row.split(",")[0][-9:] for row in rows] == ["00.000000", "00.125000", "00.250000"]
    Evalscope().prepare(offer)
    lines = (offer.directory / "requests.jsonl").read_text().splitlines()
    assert [line[1:].split(",")[0] for line in lines] == ['"timestamp": 0.0', '"timestamp": 0.125', '"timestamp": 0.25']


@pytest.mark.parametrize("stated", INPUTS, ids=lambda path: path.stem)
def test_each_lock_holds_the_release_that_its_input_pins_and_no_address(stated: Path) -> None:
    locked = stated.with_suffix(".lock").read_text()
    name, _, release = stated.read_text().splitlines()[0].partition("==")
    assert f"\n{name.partition('[')[0]}=={release} \\\n" in f"\n{locked}"
    assert "://" not in locked
