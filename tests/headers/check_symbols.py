"""The libraries export exactly the functions that the public headers mark with CKPT_API."""
import argparse
import re
import subprocess
import sys


def declared(headers):
    names = set()
    for header in headers:
        with open(header, encoding="utf-8") as file:
            text = re.sub(r"/\*.*?\*/", "", file.read(), flags=re.S)
        for declaration in re.findall(r"^CKPT_API\s([^;]*);", text, flags=re.M | re.S):
            names.add(re.search(r"\b(ckpt_\w+)\s*\(", declaration).group(1))
    return names


def exported(nm, library):
    options = ["-D"] if library.endswith(".so") or ".so." in library else ["-g"]
    listing = subprocess.run([nm, *options, "--defined-only", library], check=True, capture_output=True, text=True)
    symbols = set()
    for line in listing.stdout.splitlines():
        fields = line.split()
        if len(fields) == 3 and fields[1] != "A":  # A: the name of the version itself
            symbols.add(fields[2].split("@")[0])
    return symbols


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nm", default="nm")
    parser.add_argument("--headers", nargs="+", required=True)
    parser.add_argument("--libraries", nargs="+", required=True)
    args = parser.parse_args()

    wanted = declared(args.headers)
    faults = 0 if wanted else 1
    for library in args.libraries:
        found = exported(args.nm, library)
        for name in sorted(wanted - found):
            print(f"{library}: {name} is declared but not exported")
        for name in sorted(found - wanted):
            print(f"{library}: {name} is exported but not declared")
        faults += len(wanted ^ found)
    print(f"{len(wanted)} functions declared, {len(args.libraries)} libraries compared, {faults} faults")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
