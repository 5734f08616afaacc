"""Excel files for tests, with nothing that could write one."""

from types import SimpleNamespace

import python_calamine


def workbook(write, monkeypatch, sheets, start=(0, 0)):
    """An Excel file with these rows in its sheets, from this row and column on."""
    each = {
        name: SimpleNamespace(to_python=lambda skip_empty_area, rows=rows: rows, start=start)
        for name, rows in sheets.items()
    }
    kind, visible = python_calamine.SheetTypeEnum.WorkSheet, python_calamine.SheetVisibleEnum.Visible
    about = [SimpleNamespace(name=name, typ=kind, visible=visible) for name in sheets]
    book = SimpleNamespace(sheets_metadata=about, get_sheet_by_name=each.__getitem__)
    monkeypatch.setattr(python_calamine, "CalamineWorkbook", SimpleNamespace(from_path=lambda _: book))
    return write("", "site.xlsx")
