"""Units of XLIFF 1.2."""

VERSION_1 = "urn:oasis:names:tc:xliff:document:1.2"


def file_1(units: str, declared: str = f' xmlns="{VERSION_1}"') -> bytes:
    return f'<xliff version="1.2"{declared}><file><body>{units}</body></file></xliff>'.encode()


def unit_1(source: str, target: str = "", attributes: str = "") -> bytes:
    return file_1(f'<trans-unit id="1"{attributes}><source>{source}</source>{target}</trans-unit>')
