"""`kind_option`: the option that says what a column holds, for errors and notices that advise it."""

from __future__ import annotations

import shlex

from kfed._base.text import as_csv


def kind_option(name: str, kind: str) -> str:
    """The option that says what a column holds, as one types it; without its name if that cannot be typed.

    Examples
    --------
    >>> print(kind_option("age", "number"), "or", kind_option("age (years)", "category"))
    --kinds age=number or --kinds 'age (years)=category'
    """
    if not (name and name.isprintable()):
        return f"--kinds NAME={kind}"
    return f"--kinds {shlex.quote(as_csv(None, [[f'{name}={kind}']]).rstrip())}"
