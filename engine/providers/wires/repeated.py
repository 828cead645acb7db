"""Events of a stream that differ in their text alone: read once as JSON, then by what stands around the text.

Most events of a reply are such, and reading each as JSON is most of what a stream costs. Owns when that is safe: what stands before and after a JSON string
without escapes decides what the whole means. Must not know any protocol.
"""


class RepeatedText:
    """The events of one stream whose text is the string of `key`."""

    __slots__ = ("_after", "_before", "_keys", "_outside")

    def __init__(self, key: str) -> None:
        self._keys = (f'"{key}":"', f'"{key}": "')
        self._before = ""
        self._after = ""
        self._outside = -1

    def text(self, data: str) -> str:
        """Return the text of an event that is like the learned one but for it, "" when it is not like that."""
        end = len(data) - len(self._after)
        if self._outside < 0 or not data.startswith(self._before) or not data.endswith(self._after) or len(data) <= self._outside:
            return ""
        found = data[len(self._before) : end]
        return "" if '"' in found or "\\" in found else found

    def learn(self, data: str, text: str) -> None:
        """Learn an event which was read as JSON, and adds nothing but `text`."""
        key = next((key for key in self._keys if data.count(key) == 1), "")
        before, _, after = data.partition(key) if key else ("", "", "")
        if key and after.startswith(f'{text}"') and '"' not in text and "\\" not in text:
            self._before, self._after = before + key, after[len(text) :]
            self._outside = len(self._before) + len(self._after)
