"""A plain function for gpu-dispatch: called once per item, in several processes at once.

Run it:

    gpu-dispatch run worker.py:process items.txt -o out.jsonl                  # each line is an item
    gpu-dispatch run worker.py:process items.txt --setup longest=5 -o out.jsonl
    gpu-dispatch run worker.py:process items.txt --gpus cpu:4 -o out.jsonl     # four processes, no GPU
"""

# This file is imported once per process: what you load up here is loaded once, and not again for each item.
# A model that belongs on a GPU wants a class with setup():  gpu-dispatch init worker.py --kind torch-image


def process(item, longest=3):
    """item: a line of a .txt, a row of a .csv or .jsonl (a dict), or the path of any other file.

    longest: anything after the item is set with --setup longest=5.

    What it returns becomes "result" in out.jsonl. An exception becomes "error", and the other items go on.
    """
    text = item if isinstance(item, str) else str(item)
    words = text.split()
    return {
        "characters": len(text),
        "words": len(words),
        "longest": sorted(set(words), key=lambda word: (-len(word), word))[:longest],
    }
