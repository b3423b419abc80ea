"""A progress bar of bytes done, on stderr, where somebody is looking."""

from collections.abc import Callable, Generator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn


@contextmanager
def byte_progress(size: int, what: str) -> Generator[Callable[[int], None], None, None]:
    """Yields what to call with the number of bytes done; silent unless stderr is a terminal."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield lambda _done: None
        return
    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(binary_units=True), TimeRemainingColumn())
    with Progress(*columns, console=console) as bar:
        task = bar.add_task(what, total=size)
        yield lambda done: bar.update(task, completed=done)
