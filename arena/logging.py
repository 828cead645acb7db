"""Logs of the server and the workers: one line an event on stderr, constant event plus keys."""

import logging
import sys
from enum import StrEnum

import structlog


class LogLevel(StrEnum):
    """The least severe lines that are written."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


def configure_logging(level: LogLevel) -> None:
    """Set up logging for this process. JSON where stderr is no terminal."""
    terminal = sys.stderr.isatty()
    renderer: structlog.typing.Processor = structlog.dev.ConsoleRenderer() if terminal else structlog.processors.JSONRenderer()
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.StackInfoRenderer(),
            *([] if terminal else [structlog.processors.format_exc_info]),
            renderer,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(getattr(logging, level.name)),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        cache_logger_on_first_use=True,
    )
