"""`ResultTable`: what runs measured, as one tidy table, and the tables that go into a paper."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from kfed._base import files
from kfed._base.array import Array
from kfed.errors import InvalidInputError

if TYPE_CHECKING:
    import pandas


@dataclass(frozen=True)
class ResultTable:
    r"""One row for each run and method, one column for each axis and each measure.

    Parameters
    ----------
    rows : sequence of mappings
        Each from a name to a number or text. A name that a row lacks is missing there.

    Examples
    --------
    >>> results = ResultTable([
    ...     {"method": method, "seed": seed, "ari": ari + seed / 100}
    ...     for method, ari in [("k-FED", 0.9), ("mine", 0.93)] for seed in range(3)
    ... ])
    >>> print(results.to_latex(by="method", values=["ari"], digits=2))
    \begin{tabular}{lr}
    \toprule
    method & ari \\
    \midrule
    k-FED & $0.91 \pm 0.01$ (3) \\
    mine & $0.94 \pm 0.01$ (3) \\
    \bottomrule
    \end{tabular}
    >>> round(results.paired("mine", "k-FED", "ari").mean_difference, 3)
    0.03
    """

    rows: Sequence[Mapping[str, Any]] = field(repr=False)

    @property
    def columns(self) -> list[str]:
        """Names of all columns, in the order of their first row."""
        return list(dict.fromkeys(name for row in self.rows for name in row))

    def to_frame(self) -> pandas.DataFrame:
        """A tidy data frame; needs pandas."""
        from kfed._base.notebook import data_frame

        columns = {name: [row.get(name) for row in self.rows] for name in self.columns}
        return data_frame(columns, self.columns[:1]).reset_index()

    def to_csv(self, path: str | Path) -> None:
        """Write a CSV file."""
        text = io.StringIO()
        writer = csv.DictWriter(text, self.columns, lineterminator="\n")
        writer.writeheader()
        writer.writerows(self.rows)
        files.write(path, text.getvalue().encode())

    def to_parquet(self, path: str | Path) -> None:
        """Write a Parquet file; needs pyarrow."""
        self.to_frame().to_parquet(path, index=False)

    def summary(self, by: str | Sequence[str], values: Sequence[str]) -> ResultTable:
        """Mean, standard deviation (of a sample) and number of runs, for each group of rows and each measure.

        Parameters
        ----------
        by : str or sequence of str
            The columns that make a group.
        values : sequence of str
            The measures.
        """
        by = [by] if isinstance(by, str) else list(by)
        self._check_columns([*by, *values])
        groups: dict[tuple[Any, ...], list[Mapping[str, Any]]] = {}
        for row in self.rows:
            groups.setdefault(tuple(row.get(name) for name in by), []).append(row)
        return ResultTable([dict(zip(by, key, strict=True)) | _moments(own, values) for key, own in groups.items()])

    def to_latex(self, by: str | Sequence[str], values: Sequence[str], digits: int = 3) -> str:
        """A LaTeX table (booktabs) with a row for each group: mean, deviation and number of runs of each measure."""
        by = [by] if isinstance(by, str) else list(by)
        lines = [
            f"\\begin{{tabular}}{{{'l' * len(by)}{'r' * len(values)}}}",
            "\\toprule",
            f"{' & '.join(map(_escaped, [*by, *values]))} \\\\",
            "\\midrule",
        ]
        for row in self.summary(by, values).rows:
            cells = [_escaped(str(row[name])) for name in by] + [_cell(row, name, digits) for name in values]
            lines.append(f"{' & '.join(cells)} \\\\")
        return "\n".join([*lines, "\\bottomrule", "\\end{tabular}"])

    def paired(
        self, method: str, other: str, value: str, *, by: str = "method", over: Sequence[str] = ("seed",)
    ) -> Paired:
        """Compare two methods on the runs that both did, such as those of the same seed.

        Parameters
        ----------
        method, other : str
            Two values of the column `by`.
        value : str
            The measure.
        by : str
            The column with the method.
        over : sequence of str
            The columns that make two runs a pair: the seed, and the data set if there are several.
        """
        self._check_columns([by, value, *over])
        found = [
            {tuple(row.get(name) for name in over): row[value] for row in self.rows if row.get(by) == name_}
            for name_ in (method, other)
        ]
        both = [key for key in found[0] if key in found[1]]
        if len(both) < 2:
            raise InvalidInputError(
                f"{method!r} and {other!r} must share at least 2 runs to be compared; they share {len(both)}"
            )
        return Paired.of(np.array([found[0][key] - found[1][key] for key in both], float))

    def _check_columns(self, names: Iterable[str]) -> None:
        unknown = [name for name in names if name not in self.columns]
        if unknown:
            raise InvalidInputError(f"column not found: {unknown[0]!r}; the columns are {', '.join(self.columns)}")


@dataclass(frozen=True)
class Paired:
    """One method minus another over the same runs.

    Attributes
    ----------
    n_pairs : int
    mean_difference, deviation : float
        Mean and standard deviation of the differences.
    low, high : float
        A 95 % confidence interval of the mean difference, by Student's t.
    p_value : float
        Two-sided, of Student's paired t-test; 1 if all differences are 0.
    n_better, n_worse : int
        Pairs in which the first has the larger value, and the smaller.

    Examples
    --------
    >>> found = Paired.of(np.array([0.02, 0.03, 0.01, 0.02]))
    >>> found.n_better, round(found.mean_difference, 3), found.p_value < 0.05
    (4, 0.02, True)
    """

    n_pairs: int
    mean_difference: float
    deviation: float
    low: float
    high: float
    p_value: float
    n_better: int
    n_worse: int

    @classmethod
    def of(cls, differences: Array) -> Paired:
        """Summarise the differences of at least two pairs."""
        from scipy.stats import t

        n, mean, deviation = len(differences), float(differences.mean()), float(differences.std(ddof=1))
        error = deviation / np.sqrt(n)
        reach = float(t.ppf(0.975, n - 1)) * error
        p_value = 2 * float(t.sf(abs(mean) / error, n - 1)) if error > 0 else float(mean == 0)
        better, worse = int((differences > 0).sum()), int((differences < 0).sum())
        return cls(n, mean, deviation, mean - reach, mean + reach, p_value, better, worse)


def _moments(rows: Sequence[Mapping[str, Any]], values: Sequence[str]) -> dict[str, float]:
    found: dict[str, float] = {}
    for name in values:
        own = np.array([row[name] for row in rows if row.get(name) is not None], float)
        found[f"{name}_mean"] = float(own.mean()) if len(own) else float("nan")
        found[f"{name}_std"] = float(own.std(ddof=1)) if len(own) > 1 else float("nan")
        found[f"{name}_n"] = len(own)
    return found


def _cell(row: Mapping[str, Any], name: str, digits: int) -> str:
    mean, deviation, n = (row[f"{name}_{what}"] for what in ("mean", "std", "n"))
    if n == 0:
        return "--"
    spread = f" \\pm {deviation:.{digits}f}" if n > 1 else ""
    return f"${mean:.{digits}f}{spread}$ ({n})"


def _escaped(text: str) -> str:
    """Text with LaTeX's own signs escaped."""
    return "".join(_SIGNS.get(sign, sign) for sign in text)


_SIGNS = {sign: f"\\{sign}" for sign in "&%$#_{}"} | {
    "\\": "\\textbackslash{}",
    "^": "\\textasciicircum{}",
    "~": "\\textasciitilde{}",
}
