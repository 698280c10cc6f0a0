"""Numbers and texts as the report prints them. The template escapes them for HTML."""

import math
import unicodedata

_JOINERS = "\u200c\u200d"  # scripts and emoji need these invisible characters
_ESCAPED = {"Cc", "Cf", "Cn", "Co", "Cs", "Zl", "Zp"}  # Unicode categories that are invisible, or reverse a line
_TAGS = range(0xE0020, 0xE0080)  # the flags of Wales and others
_SPACE = "\N{NO-BREAK SPACE}"
_NOTHING = "\N{EN DASH}"


def plain(value: object, limit: int = 160) -> str:
    """Return a text from outside, shortened in its middle, with invisible characters (controls, bidi marks) as escapes.

    >>> plain("cat\\u202egpj.exe"), plain("two\\nlines"), plain("\\ud800")
    ('cat\\\\u202egpj.exe', 'two\\\\nlines', '\\\\ud800')
    >>> plain("a" * 50 + "z" * 50, limit=9), plain(" "), plain(7)
    ('aaa…zzzzz', '(blank)', '7')
    """
    text = str(value)
    if not text.strip():
        return "(blank)"
    if len(text) > limit:
        head = (limit - 1) * 2 // 5  # the end of a path says more than its beginning
        text = f"{text[:head]}…{text[head + 1 - limit :]}"
    if text.isprintable():
        return text
    return "".join(letter if _is_shown(letter) else letter.encode("unicode_escape").decode() for letter in text)


def _is_shown(letter: str) -> bool:
    return letter in _JOINERS or ord(letter) in _TAGS or unicodedata.category(letter) not in _ESCAPED


def cell(value: object, limit: int = 300) -> str:
    """Return a value as a table shows it: numbers with four digits, texts in one line.

    >>> cell(0.123456), cell(12.0), cell("two\\n lines"), cell(True), cell(1234567)
    ('0.1235', '12', 'two lines', 'True', '1234567')
    >>> cell(None) == cell(float("nan")) == "\\N{EN DASH}"
    True
    """
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return _NOTHING
    if isinstance(value, float):
        return f"{value:.4g}"
    return plain(" ".join(str(value).split()), limit)


def percent(share: float) -> str:
    """Return 0..1 in percent; only exactly 0 and 1 are printed as 0 % and 100 %.

    >>> [percent(share).replace("\\N{NO-BREAK SPACE}", " ") for share in (0, 1e-9, 0.1914, 0.99999, 1)]
    ['0 %', '<0.1 %', '19.1 %', '>99.9 %', '100 %']
    """
    if share in (0, 1):
        return f"{share:.0%}".replace("%", f"{_SPACE}%")
    if 0 < share < 0.0005:
        return f"<0.1{_SPACE}%"
    if 0.9995 <= share < 1:
        return f">99.9{_SPACE}%"
    return f"{100 * share:.1f}{_SPACE}%"


def quality(value: float) -> str:
    """Return a label quality in 0..1 with three digits.

    >>> quality(7.9e-20), quality(0.25), quality(0)
    ('<0.001', '0.250', '0.000')
    """
    if math.isnan(value):
        return _NOTHING
    return "<0.001" if 0 < value < 0.0005 else f"{value:.3f}"


def duration(seconds: float) -> str:
    """Return seconds as hours, minutes and seconds.

    >>> [duration(s).replace("\\N{NO-BREAK SPACE}", " ") for s in (0.4, 65, 7260)]
    ['under 1 s', '1 min 5 s', '2 h 1 min']
    """
    if seconds < 1:
        return f"under 1{_SPACE}s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole}{_SPACE}s"
    if whole < 3600:
        return f"{whole // 60}{_SPACE}min {whole % 60}{_SPACE}s"
    return f"{whole // 3600:,}{_SPACE}h {whole % 3600 // 60}{_SPACE}min"


def counted(number: int, one: str, many: str) -> str:
    """Return a number with its noun.

    >>> counted(1, "label", "labels"), counted(1200, "label", "labels")
    ('1 label', '1,200 labels')
    """
    return f"{number:,} {one if number == 1 else many}"
