"""One page that shows what a run directory holds: tables, figures, and how they were made."""

from hera_fast.report.figures import draw_record
from hera_fast.report.page import make_page, write_report

__all__ = ["draw_record", "make_page", "write_report"]
