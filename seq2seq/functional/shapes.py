"""Shape checks at the start of a function, which also document the shapes."""

from torch import Tensor


def check(pattern: str, **tensors: Tensor) -> dict[str, int]:
    """Check the shapes of tensors and return the size of every letter.

    `check("B H T D, B G S D", q=q, k=k)` lists the expected shapes in the order of the keywords.

    Returns: letter -> size.
    Raises: ValueError if a tensor does not have the expected shape, or if there are letters H and G
    and G does not divide H.
    """
    sizes: dict[str, int] = {}
    for (name, tensor), shape in zip(tensors.items(), pattern.split(","), strict=True):
        letters = shape.split()
        known = {letter: sizes[letter] for letter in letters if letter in sizes}
        fits = len(letters) == tensor.dim() and all(
            sizes.setdefault(letter, size) == size
            for letter, size in zip(letters, tensor.shape, strict=True)
        )
        if not fits:
            given = ", ".join(f"{letter}={size}" for letter, size in known.items())
            raise ValueError(
                f"{name} has shape {tuple(tensor.shape)}; expected ({', '.join(letters)})"
                + (f" with {given}" if given else "")
            )
    if "H" in sizes and "G" in sizes:
        check_head_groups(sizes["H"], sizes["G"])
    return sizes


def check_head_groups(heads: int, groups: int) -> None:
    """Raises: ValueError unless the number of key heads divides the number of query heads."""
    if groups < 1 or heads % groups:
        raise ValueError(f"{groups} key heads do not divide {heads} query heads")
