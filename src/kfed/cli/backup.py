"""`kfed coordinator`: back up and restore what a coordinator keeps."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from kfed.cli._terminal import Force, Json, claim, flag, print_json, say
from kfed.coordinator import requiring_extra

Store = Annotated[str, typer.Argument(metavar="STORE", help="The store: a file, or a postgresql:// address.")]
BackupFile = Annotated[Path, typer.Argument(metavar="FILE", help="The backup.")]

app = typer.Typer(help="Back up and restore the store of a coordinator.", no_args_is_help=True)


@app.command(
    epilog="`kfed coordinator backup kfed.db monday.backup`\n\n"
    "`kfed coordinator backup postgresql://kfed@db/kfed monday.backup`   the password may be in PGPASSWORD"
)
def backup(store: Store, file: BackupFile, force: Force = False, as_json: Json = False) -> None:
    """Write everything in a store to one file; a coordinator may be running meanwhile.

    The file holds the messages of devices and the hashes of all tokens; it can be read by its owner only.
    """
    with requiring_extra():
        from kfed.coordinator.store import backup

    claim([file], inputs=[store], force=force)
    said = backup(store, file)
    print_json({"file": str(file), "holds": said}) if as_json else say(
        f"  [green]wrote[/]  {escape(str(file))}  {said}"
    )


@app.command(
    epilog="`kfed coordinator restore monday.backup kfed.db`\n\n"
    "`kfed coordinator restore monday.backup postgresql://kfed@db/kfed --force`   also from a file to PostgreSQL"
)
def restore(
    file: BackupFile,
    store: Store,
    force: Annotated[bool, flag("--force", "Replace what the store holds.")] = False,
    as_json: Json = False,
) -> None:
    """Replace everything in a store with a backup; a running coordinator switches to the backup.

    What came after the backup is gone: devices that joined since then send their messages again.
    """
    with requiring_extra():
        from kfed.coordinator.store import restore

    said = restore(file, store, overwrite=force)
    print_json({"file": str(file), "holds": said}) if as_json else say(f"  [green]restored[/]  {said}")
