"""A recipe for Spack. In a repository of your site: REPO/packages/stoker/package.py, then
`spack install stoker +mpi`. `git` is the address of your clone."""

from spack.package import *


class Stoker(MesonPackage):
    """Finds out why deep-learning jobs wait for their data, and mends it: profiles, packs, stages and
    loads datasets, and determines how many cores, GPUs and nodes are worth requesting."""

    git = "file:///opt/src/stoker"
    version("main", branch="main")

    variant("mpi", default=True, description="Stage and benchmark across nodes through MPI")

    depends_on("c", type="build")
    depends_on("meson@1.0:", type="build")
    depends_on("pkgconfig", type="build")
    depends_on("zlib-api")
    for library in ("zstd", "lz4", "xz", "libdeflate", "lmdb", "liburing", "libjpeg-turbo", "libpng", "libyaml", "hdf5"):
        depends_on(library)
    depends_on("mpi", when="+mpi")

    def meson_args(self):
        return ["-Dmpi=" + ("enabled" if self.spec.satisfies("+mpi") else "disabled")]
