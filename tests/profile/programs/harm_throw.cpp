// Exceptions that are thrown through functions of the C library that call back.
#include <cstdio>
#include <dirent.h>
#include <ftw.h>
#include <stdexcept>

static int refuse(const struct dirent *) { throw std::runtime_error("scandir"); }
static int stop(const char *, const struct stat *, int, struct FTW *)
{
    throw std::runtime_error("nftw");
}

int main(int, char **argv)
{
    try {
        struct dirent **list;
        scandir(argv[1], &list, refuse, nullptr);
    } catch (const std::exception &e) {
        std::printf("caught %s\n", e.what());
    }
    try {
        nftw(argv[1], stop, 4, 0);
    } catch (const std::exception &e) {
        std::printf("caught %s\n", e.what());
    }
}
