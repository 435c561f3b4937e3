"""A PyTorch model over image files, for gpu-dispatch.

Run it:

    pip install torch pillow numpy
    gpu-dispatch run worker.py:ImageWorker 'photos/**/*.jpg' -o out.jsonl
    gpu-dispatch run worker.py:ImageWorker photos/ --setup weights=model.pt --setup size=384 -o out.jsonl
"""

from gpu_dispatch import BaseWorker


class ImageWorker(BaseWorker):
    def setup(self, gpu_id, seed, weights=None, size=224):
        """Called once in each worker process. weights and size are set with --setup weights=… --setup size=…"""
        # Imported here and not above: the process that hands out the work needs no PyTorch, and this one is
        # confined to its own GPU before PyTorch looks for one.
        try:
            import numpy  # noqa: F401 -- preprocess() needs both; better to know now
            import torch
            from PIL import Image  # noqa: F401
        except ImportError as missing:
            raise ImportError(f"{missing}; this worker needs: pip install torch pillow numpy") from missing

        torch.manual_seed(seed)
        self.size = size
        if weights is not None:
            model = torch.jit.load(weights, map_location="cpu")  # what torch.jit.save() wrote
        else:
            # YOUR MODEL HERE. This one has no weights, and yet its answer is of use: the mean colours of a
            # 4 × 4 grid, 48 numbers that are nearly equal for pictures that look nearly the same.
            model = torch.nn.Sequential(torch.nn.AdaptiveAvgPool2d(4), torch.nn.Flatten())
        self.model = model.eval().to(self.device)  # self.device: "cuda:0", whichever GPU this worker has, or "cpu"

    def preprocess(self, path):
        """Called for each item on --io-threads threads, ahead of the model: the GPU does not wait for the disk."""
        import numpy
        from PIL import Image

        with Image.open(path) as image:
            pixels = numpy.asarray(image.convert("RGB").resize((self.size, self.size)), dtype="float32")
        return pixels.transpose(2, 0, 1) / 255.0  # channels first, 0 … 1

    def process_batch(self, images):
        """Called with what preprocess() gave for several items; returns as many results, in order.

        How many items is found by itself, from speed and memory; --batch-size 64 sets it.
        """
        import numpy
        import torch

        with torch.inference_mode():
            answers = self.model(torch.from_numpy(numpy.stack(images)).to(self.device))
        return [answer.cpu().numpy() for answer in answers]  # arrays become lists in out.jsonl

    def cleanup(self):
        """Called once at the end. The end of the process frees the GPU; close here what is yours."""
