"""`PreparedEpisodes`: episodes that stay on disk, so there may be more than fit in memory."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path

from ontarget.episodes.episodes import Episodes, Split
from ontarget.episodes.prepared._manifest import Manifest, checksum
from ontarget.episodes.prepared._store import opened_store
from ontarget.errors import Argument, EpisodesError, EpisodesFileError


class PreparedEpisodes:
    """Episodes in a folder that `ontarget prepare` wrote, sorted by step.

    They are divided into the parts "learn" (for the models) and "assure" (held out for promises).
    In memory are only the id, length and outcome of each episode (some 60 bytes), and the rows of
    the steps that were read last. You can fit, evaluate, check for drift and recalibrate as with
    other `Episodes`, because all of this reads one step after the other.

    Parameters
    ----------
    folder
        A folder that `prepare` wrote, or another program in the same layout (``docs/prepared.md``).

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> from ontarget.episodes import prepare
    >>> rng = np.random.default_rng(0)
    >>> walks = Episodes.from_arrays(rng.normal(size=(50, 4, 1)), rng.normal(size=(50, 4)))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     walks.write(f"{folder}/walks.parquet")
    ...     found = prepare(f"{folder}/walks.parquet", f"{folder}/prepared", progress=False)
    ...     print(found, len(found.split.learn), found.episodes.at(3).states.shape)
    <PreparedEpisodes: 40 learn, 10 assure; 200 rows> 40 (50, 1)
    """

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        self.manifest = Manifest.read(self.folder)

    def part(self, name: str) -> Episodes:
        """The episodes of one part: ``"learn"`` (for the models) or ``"assure"`` (held out)."""
        if name not in self.manifest.parts:
            known = ", ".join(self.manifest.parts)
            raise EpisodesError(Argument("name"), f" needs one of the parts {known}, got {name!r}")
        return Episodes(opened_store(self.folder, (name,)))

    @cached_property
    def episodes(self) -> Episodes:
        """All episodes: first those to learn from, then those held out for promises ("assure")."""
        return Episodes(opened_store(self.folder))

    @cached_property
    def split(self) -> Split:
        """The episodes to learn from and those held out for promises ("assure").

        The object is of the kind that `Episodes.split` returns.
        """
        grid = self.part("learn").grid
        own = {name: Episodes(self.part(name)._store, grid=grid) for name in self.manifest.parts}
        return Split(own["learn"], own.get("assure"), None)

    def check(self) -> None:
        """Compare every file with its checksum; a damaged file raises an `EpisodesFileError`."""
        for part in self.manifest.parts.values():
            for file in (part.table, *part.steps):
                path = self.folder / file.path
                if not path.exists():
                    raise EpisodesFileError(f"{path}: no such file; prepare the episodes again")
                if file.checksum is not None and checksum(path) != file.checksum:
                    raise EpisodesFileError(
                        f"{path} has changed since it was prepared; prepare the episodes again"
                    )

    def __len__(self) -> int:
        return sum(part.episodes for part in self.manifest.parts.values())

    def __repr__(self) -> str:
        parts = self.manifest.parts
        sizes = ", ".join(f"{part.episodes:,} {name}" for name, part in parts.items())
        rows = sum(part.rows for part in parts.values())
        return f"<PreparedEpisodes: {sizes}; {rows:,} rows>"
