"""The demo on a fake engine with a model of a few words, which samples and stops as it is asked."""

import pytest

from app.settings import Settings
from benchmarks.verification.serving import Site, demo_site, on_the_fake


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Site:
    """Frozen for this host."""
    return demo_site(on_the_fake(Settings(), tmp_path_factory.mktemp("site")), (2.0, 4.0))
