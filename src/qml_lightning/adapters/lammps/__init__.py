"""LAMMPS: a pair style as a plugin that is compiled on the user's machine, and a fall-back that needs no compiler."""
