"""A worker in a module that imports nothing but the package: what it sees is what every worker has."""

import sys

from gpu_dispatch import BaseWorker, Dispatcher  # noqa: F401 -- as users' modules do


class SeesModules(BaseWorker):
    def setup(self, gpu_id, seed):
        self.at_birth = sorted(sys.modules)

    def process(self, item):
        return self.at_birth
