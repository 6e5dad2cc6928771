"""`PreparedEpisodes`: episodes that stay on disk, so there may be more than fit in memory."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from errno import EDQUOT, ENOSPC
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple, Unpack

import numpy as np
import polars as pl

from ontarget._arguments import share, usable_path, whole_number
from ontarget._keyed import keys_of
from ontarget._progress import progress_bar
from ontarget._typing import AnyArray, IndexArray
from ontarget._whole_file import replacing, write_whole
from ontarget.episodes.episodes import Episodes, Split
from ontarget.episodes.schema import Schema, UnknownCategories, joined_unknown
from ontarget.episodes.splits import ByGroup, capped_parts, divide
from ontarget.episodes.store import Roles, Store
from ontarget.errors import Argument, EpisodesError, EpisodesFileError
from ontarget.reading._columns import decoded, joined_labels, labels
from ontarget.reading.files import explained
from ontarget.reading.frames import record_frame
from ontarget.reading.layout import FrameOptions, Layout
from ontarget.reading.prepared._buckets import (
    FILE,
    ROW,
    Buckets,
    Sources,
    blamed,
    refuse_spread,
    sources_of,
)
from ontarget.reading.prepared.manifest import (
    Manifest,
    PreparedFile,
    PreparedPart,
    checksum,
    is_prepared,
)
from ontarget.reading.prepared.store import FEATURE, opened_store

_WORK = ".work"
_FILE_ROWS = 2_000_000
_GROUP_ROWS = 1_000_000
_BUCKET_GROUP_ROWS = 1 << 15  # small, because only a step or two of each bucket are read at a time


class PreparedEpisodes:
    """Episodes in a folder that `ontarget prepare` wrote, sorted by step.

    They are divided into the parts "learn" and "assure". In memory are only the id, length and
    outcome of each episode (some 60 bytes), and the rows of the steps that were read last. You can
    fit, evaluate, check for drift and recalibrate as with other `Episodes`, because all of this
    reads one step after the other.

    Parameters
    ----------
    folder
        A folder that `prepare` wrote, or another program in the same layout (``docs/prepared.md``).

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> from ontarget.reading import prepare
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
        """The episodes of one part: ``"learn"`` or ``"assure"`` (held out)."""
        if name not in self.manifest.parts:
            known = ", ".join(self.manifest.parts)
            raise EpisodesError(Argument("name"), f" needs one of the parts {known}, got {name!r}")
        return Episodes(opened_store(self.folder, (name,)))

    @cached_property
    def episodes(self) -> Episodes:
        """All episodes: first those to learn from, then those held out for promises."""
        return Episodes(opened_store(self.folder))

    @cached_property
    def split(self) -> Split:
        """The episodes to learn from and those held out for promises."""
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


def prepare(
    sources: Sources,
    output: str | Path,
    *,
    seed: int = 0,
    assure: float = 0.2,
    max_learn: int = 20_000,
    by_group: ByGroup | None = None,
    file_column: str | None = None,
    progress: bool = True,
    **options: Unpack[FrameOptions],
) -> PreparedEpisodes:
    """Write episodes to a folder from which a monitor can read them step by step.

    Use this if the episodes do not fit in memory. The rows of an episode may be spread over several
    files and come in any order. Only some of the rows are in memory at any time, plus about 100
    bytes per episode. If the process is killed, the same call continues where it stopped, and the
    resulting files are exactly the same.

    Parameters
    ----------
    sources
        A folder of Parquet or CSV files, a pattern such as ``"runs/*.parquet"``, one file, a list
        of these, or the folder of a dataset that `Episodes.read` knows. Such a dataset is read into
        memory as a whole.
    output
        The folder to write. It takes about as much disk space as the sources would as Parquet
        files; while it is being written, it takes about three times as much.
    seed, assure, max_learn, by_group
        How the episodes are divided into learn and assure, as by `GoalMonitor.fit`.
    file_column
        Add a column of this name, with the name of each row's file (and its folders, if two files
        have the same name). If each file numbers its episodes from 0, let file and number together
        name an episode: ``file_column="file", episode=["file", "episode"]``.
    progress
        Whether to show a progress bar.
    options
        The options of `Episodes.from_frame`, except several behaviors and a column of targets.

    Examples
    --------
    >>> import tempfile
    >>> runs = Episodes.from_arrays(np.zeros((10, 3, 1)), np.ones((10, 3)))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     runs.write(f"{folder}/runs.csv")
    ...     prepare(f"{folder}/runs.csv", f"{folder}/prepared", progress=False)
    <PreparedEpisodes: 8 learn, 2 assure; 30 rows>
    """
    share("assure", assure)
    _refuse_unprepared(options)
    folder = usable_path(output, error=EpisodesFileError)
    found = sources_of(sources, options, folder)
    division = {
        "seed": whole_number("seed", seed, least=0),
        "assure": assure,
        "max_learn": whole_number("max_learn", max_learn, least=1),
        "by_group": by_group,
    }
    asked: dict[str, Any] = {
        "division": division,
        "file_column": file_column,
        "options": {name: _shown(one) for name, one in sorted(options.items())},
        "polars": pl.__version__,  # its hash decides which bucket a row is in
        "sources": [source.stamp() for source in found],
    }
    buckets = Buckets(folder / _WORK, found, file_column)
    asked["buckets"] = buckets.n
    with _room_for(folder):
        if not _begun(folder, asked):
            _Preparing(folder, buckets, division).run(progress=progress)
            shutil.rmtree(folder / _WORK)
    return PreparedEpisodes(folder)


def _refuse_unprepared(options: FrameOptions) -> None:
    behavior = options.get("behavior", "sum")
    like = options.get("like")
    if isinstance(behavior, Mapping) or (like is not None and like.readings):
        raise EpisodesError(
            "prepare() takes a single behavior, got several; prepare the episodes once for each"
        )
    if options.get("target") is not None:
        raise EpisodesError(
            "prepare() takes no column of targets (",
            Argument("target"),
            "); read the episodes with Episodes.read",
        )


def _shown(value: object) -> str:
    """An option as text. An interrupted call may be continued only if these texts are the same."""
    if hasattr(value, "schema"):
        like: Any = value
        return repr([like.schema.to_json(), like.behavior.spec, like.horizon])
    return repr(value)


@contextmanager
def _room_for(folder: Path) -> Iterator[None]:
    """A context that turns system errors about the folder, such as a full disk, into a message."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        yield
    except (OSError, pl.exceptions.PolarsError, pl.exceptions.PanicException) as error:
        root = error.__cause__ if isinstance(error, EpisodesFileError) else error
        code = getattr(root, "errno", None)
        if code in (ENOSPC, EDQUOT) or "os error 28" in str(root) or "No space" in str(error):
            raise EpisodesFileError(
                f"{folder}: the disk is full; free some space and run the same command again, "
                f"which continues where it stopped, or choose a folder on another disk"
            ) from error
        if isinstance(error, EpisodesFileError):
            raise
        raise EpisodesFileError(
            f"{folder} cannot be written, or what is in it cannot be read: {error}"
        ) from error


def _begun(folder: Path, asked: dict[str, Any]) -> bool:
    """Whether the folder is completely prepared; refused if it was begun in another way."""
    plan, text = folder / _WORK / "plan.json", json.dumps(asked, indent=1, sort_keys=True)
    kept = folder / "sources.json"
    for path in (kept, plan):
        if path.exists() and (was := path.read_text()) != text:
            raise EpisodesFileError(
                f"{folder} was prepared from other files or options ({_difference(was, asked)}); "
                "pass an empty folder, or remove it"
            )
    for part in folder.rglob(".ontarget-*.part"):  # left by a process that was killed
        part.unlink()
    if is_prepared(folder) and kept.exists():
        shutil.rmtree(folder / _WORK, ignore_errors=True)
        return True
    others = [path for path in folder.iterdir() if path.name != _WORK]
    if others and not plan.exists():
        raise EpisodesFileError(
            f"{folder} is not empty: it contains {others[0].name}; pass another folder"
        )
    plan.parent.mkdir(exist_ok=True)
    if not plan.exists():
        write_whole(plan, [text.encode()])
    return False


def _difference(was: str, asked: dict[str, Any]) -> str:
    """The first file or option that differs from the earlier call, in words."""
    before = json.loads(was)
    files = {tuple(one) for one in before["sources"]} ^ {tuple(one) for one in asked["sources"]}
    if files:
        return f"{min(files)[0]} is new, gone or has changed"
    name = next(name for name in asked if asked[name] != before.get(name))
    return f"{name}: {before.get(name)} and {asked[name]}"


class _Table(NamedTuple):
    """All episodes in the order in which they first appear in the files, and their buckets."""

    columns: dict[str, AnyArray]
    bucket: IndexArray
    place: IndexArray  # the position of each episode among those of its bucket

    def take(self, which: IndexArray) -> _Table:
        own = {name: values[which] for name, values in self.columns.items()}
        return _Table(own, self.bucket[which], self.place[which])


@dataclass(frozen=True)
class _Preparing:
    """The second half of preparing: sorts the rows of all buckets by part and step."""

    folder: Path
    buckets: Buckets
    division: dict[str, Any]

    @property
    def work(self) -> Path:
        return self.buckets.folder

    def run(self, *, progress: bool) -> None:
        """Do everything that is not done yet; the manifest is written last."""
        sources, n = self.buckets.sources, self.buckets.n
        total = 2 * len(sources) + 3 * n
        with progress_bar("preparing", total, unit="pieces", shown=progress) as reached:
            for number in range(len(sources)):
                self.buckets.scatter(number)
                reached(2 * (number + 1))
            for bucket in range(n):
                self._gather(bucket)
                reached(2 * len(sources) + 2 * (bucket + 1))
            table = self._table()
            parts = {
                name: self._part(name, table.take(index))
                for name, index in self._divided(table).items()
                if index.size and name != "rest"
            }
            reached(total)
        facts = self._facts
        write_whole(self.folder / "sources.json", [(self.work / "plan.json").read_bytes()])
        Manifest(
            schema=self._schema,
            behavior=self._sample.behavior,
            horizon=max(one["horizon"] for one in facts),
            horizon_declared=facts[0]["declared"],
            roles=Roles(**facts[0]["roles"]),
            columns=tuple(facts[0]["columns"]),
            parts=parts,
            split=self.division,
            dropped=sum(one["dropped"] for one in facts),
            censoring=next((one["censoring"] for one in facts if one["censoring"]), ""),
            remarks=(*self.buckets.parts.remarks, *self._sample.remarks),
            strangers=joined_unknown(
                UnknownCategories.from_json(own) for one in facts for own in one["strangers"]
            ),
        ).write(self.folder)

    @cached_property
    def _sample(self) -> Episodes:
        """The episodes of the first bucket with rows, to see what all episodes have in common."""
        for bucket in range(self.buckets.n):
            rows = self.buckets.rows(bucket)
            if rows.height:
                return self._read(rows, self.buckets.layout)
        raise EpisodesError("the files have no rows; record at least one episode")

    @cached_property
    def _schema(self) -> Schema:
        """The features; each text feature has the categories of all files."""
        own = self._sample.schema
        if self.buckets.layout.schema is not None:
            return own
        return Schema(
            tuple(
                one
                if one.categories is None
                else replace(one, categories=self.buckets.texts.get(one.name, one.categories))
                for one in own.features
            )
        )

    @property
    def _facts(self) -> list[dict[str, Any]]:
        paths = sorted(self.work.glob("bucket-*.json"))
        return [json.loads(path.read_bytes()) for path in paths]

    def _read(self, rows: pl.DataFrame, layout: Layout) -> Episodes:
        """The episodes in these rows; if there is an error, its message names the file at fault."""
        try:
            plain = rows.drop(ROW, FILE)
            refuse_spread(rows, layout, self.buckets)
            return Episodes._built(record_frame(plain, layout), layout)
        except EpisodesError as error:
            raise blamed(error, rows, layout, self.buckets) from error

    def _gather(self, bucket: int) -> None:
        """Write the episodes of one bucket, sorted by step, unless that is done already."""
        done = self.work / f"bucket-{bucket:04d}.json"
        rows = pl.DataFrame() if done.exists() else self.buckets.rows(bucket)
        if not rows.height:
            return
        layout = self.buckets.layout
        if layout.schema is None:
            layout = replace(layout, schema=self._schema, features=self._schema.names)
        found = self._read(rows, layout).compact()
        store = found._store
        columns = _row_columns(store)
        path = self.work / f"bucket-{bucket:04d}-rows.parquet"
        _write_table(path, columns, rows=_BUCKET_GROUP_ROWS, passing=True)
        about = _episode_columns(found) | {"first": _first_rows(found, rows, self.buckets)}
        path = self.work / f"bucket-{bucket:04d}-episodes.parquet"
        _write_table(path, [_series(name, own) for name, own in about.items()])
        facts = {
            "horizon": found.horizon,
            "declared": found.horizon_declared,
            "roles": asdict(found.roles),
            "columns": [one.name for one in columns if one.name in ("before", "reward", "ahead")],
            "dropped": found.dropped,
            "censoring": found.censoring,
            "strangers": [one.to_json() for one in found.strangers],
        }
        write_whole(done, [json.dumps(facts).encode()])

    def _table(self) -> _Table:
        """A table of all episodes, in the order in which they first appear in the files."""
        tables, buckets = [], []
        for path in sorted(self.work.glob("bucket-*-episodes.parquet")):
            tables.append(pl.read_parquet(path))
            buckets.append(int(path.name[len("bucket-") :][:4]))
        if not tables:
            raise EpisodesError("no episode is left; record at least one that ended")
        sizes = [one.height for one in tables]
        whole = pl.concat(tables)
        columns = {name: _values(whole.get_column(name)) for name in whole.columns}
        bucket = np.repeat(buckets, sizes).astype(np.intp)
        place = np.concatenate([np.arange(size) for size in sizes])
        return _Table(columns, bucket, place).take(np.argsort(columns["first"], kind="stable"))

    def _divided(self, table: _Table) -> dict[str, IndexArray]:
        """The positions of the episodes of each part, chosen as `Episodes.split` does."""
        ids, division = table.columns["id"], self.division
        found = divide(
            ids,
            keys_of(ids),
            table.columns.get("group"),
            capped_parts(ids.size, division["assure"], division["max_learn"]),
            seed=division["seed"],
            by_group=division["by_group"],
        )
        return {name: np.sort(index) for name, index in found.items()}

    def _part(self, name: str, table: _Table) -> PreparedPart:
        """Write all files of one part of the episodes; files that exist already are kept."""
        folder = self.folder / f"part={name}"
        folder.mkdir(exist_ok=True)
        own = {key: values for key, values in table.columns.items() if key != "first"}
        listed = [pl.int_range(table.bucket.size, eager=True).alias("episode")]
        listed += [_series(key, values) for key, values in own.items()]
        path = folder / "episodes.parquet"
        if not path.exists():
            _write_table(path, listed)
        lengths = own["length"]
        longest = int(lengths.max())
        width = max(1, _FILE_ROWS // lengths.size)
        files = []
        for start in range(0, longest, width):
            stop = min(start + width, longest)
            inside = f"part={name}/steps={start:05d}-{stop - 1:05d}/rows.parquet"
            where = self.folder / inside
            if not where.exists():
                where.parent.mkdir(exist_ok=True)
                _write_table(where, self._steps(table, start, stop), rows=lengths.size)
            n = int(np.clip(lengths - start, 0, stop - start).sum())
            files.append(PreparedFile(inside, n, start, stop, checksum(where)))
        listing = PreparedFile(f"part={name}/episodes.parquet", lengths.size, 0, 0, checksum(path))
        return PreparedPart(lengths.size, int(lengths.sum()), listing, tuple(files))

    def _steps(self, table: _Table, start: int, stop: int) -> list[pl.Series]:
        """The rows of the steps from ``start`` to before ``stop``, sorted by step and episode."""
        found = []
        for bucket in np.unique(table.bucket).tolist():
            own = np.flatnonzero(table.bucket == bucket)
            number = np.full(int(table.place[own].max()) + 1, -1)
            number[table.place[own]] = own
            path = self.work / f"bucket-{bucket:04d}-rows.parquet"
            wanted = pl.col("step").is_between(start, stop - 1)
            rows = pl.scan_parquet(path).filter(wanted).collect()
            local = rows.get_column("episode").to_numpy()
            here = np.full(local.size, -1)
            known = local < number.size
            here[known] = number[local[known]]
            some = rows.with_columns(pl.Series("episode", here)).filter(pl.col("episode") >= 0)
            found.append(some)
        return _by_step(pl.concat(found), start).get_columns()


def _by_step(rows: pl.DataFrame, start: int) -> pl.DataFrame:
    """The rows sorted by step and then by episode."""
    episode, step = (rows.get_column(name).to_numpy() for name in ("episode", "step"))
    place = (step - start).astype(np.intp) * (int(episode.max()) + 1) + episode
    found = np.full(int(place.max()) + 1, -1)
    found[place] = np.arange(place.size)
    return rows[found[found >= 0]]


def _row_columns(store: Store) -> list[pl.Series]:
    """The rows of episodes in memory as the columns of a table: episode, step and all values."""
    counts = np.diff(store.offsets)
    alive = [np.flatnonzero(store.lengths > t) for t in range(counts.size)]
    found = [
        pl.Series("episode", np.concatenate(alive), dtype=pl.Int64),
        pl.Series("step", np.repeat(np.arange(counts.size), counts), dtype=pl.Int32),
        pl.Series("before", store.before),
    ]
    for name, values in (("reward", store.rewards), ("ahead", store.ahead)):
        if values is not None:
            found.append(pl.Series(name, values))
    for j, feature in enumerate(store.schema.features):
        found.append(decoded(store.states[j], feature).alias(f"{FEATURE}{feature.name}"))
    return found


def _episode_columns(found: Episodes) -> dict[str, AnyArray]:
    """The columns of a table with one row per episode: id, length, outcome and others."""
    store = found._store
    named = {"group": store.groups, "truncated": store.truncated, "terminated": store.terminated}
    about: dict[str, AnyArray] = {
        "id": store.ids,
        "length": store.lengths,
        "outcome": store.outcomes,
    }
    return about | {name: own for name, own in named.items() if own is not None}


def _first_rows(found: Episodes, rows: pl.DataFrame, buckets: Buckets) -> IndexArray:
    """For each episode, the number of the row in which it first appears in the files."""
    columns = [rows.get_column(name) for name in buckets.parts.episode_columns]
    names = joined_labels(columns, "episode")
    first = np.unique(names.codes, return_index=True)[1]
    known = names[first]
    order = np.argsort(known, kind="stable")
    places = order[np.searchsorted(known[order], found.ids)]
    numbers: IndexArray = rows.get_column(ROW).to_numpy()[first[places]]
    return numbers


def _values(column: pl.Series) -> AnyArray:
    """A column of names, numbers or flags as a NumPy array."""
    if column.dtype == pl.String:
        return labels(column, column.name)[np.arange(len(column))]
    found: AnyArray = column.to_numpy()
    return found


def _series(name: str, values: AnyArray) -> pl.Series:
    if values.dtype.kind in "iufb":
        return pl.Series(name, values)
    return pl.Series(name, values.tolist(), dtype=pl.String)


def _write_table(
    path: Path, columns: list[pl.Series], rows: int = _GROUP_ROWS, *, passing: bool = False
) -> None:
    """Write a table; one that is ``passing`` is compressed less, to save time."""
    with explained(path, "written"), replacing(path) as part:
        pl.DataFrame(columns).write_parquet(
            part,
            compression="lz4" if passing else "zstd",
            compression_level=None if passing else 1,
            row_group_size=max(1, min(rows, _GROUP_ROWS)),
        )
