"""Citations of public data sets."""

CHRISTENSEN_2020 = (
    "A. S. Christensen, O. A. von Lilienfeld, On the role of gradients for machine learning of molecular energies and "
    "forces, Mach. Learn.: Sci. Technol. 1, 045018 (2020), doi:10.1088/2632-2153/abba6f"
)
CHMIELA_2017 = (
    "S. Chmiela et al., Machine learning of accurate energy-conserving molecular force fields, Sci. Adv. 3, e1603015 "
    "(2017), doi:10.1126/sciadv.1603015"
)
KOVACS_2021 = (
    "D. P. Kovács et al., Linear atomic cluster expansion force fields for organic molecules: beyond RMSE, "
    "J. Chem. Theory Comput. 17, 7696 (2021)"
)
BATATIA_2022 = (
    "I. Batatia et al., The design space of E(3)-equivariant atom-centered interatomic potentials, arXiv:2205.06643"
)
RAMAKRISHNAN_2014 = (
    "R. Ramakrishnan et al., Quantum chemistry structures and properties of 134 kilo molecules, Sci. Data 1, 140022 "
    "(2014), doi:10.1038/sdata.2014.22"
)
RUPP_2012 = (
    "M. Rupp et al., Fast and accurate modeling of molecular atomization energies with machine learning, "
    "Phys. Rev. Lett. 108, 058301 (2012), doi:10.1103/PhysRevLett.108.058301"
)
CHRISTENSEN_2019 = (
    "A. S. Christensen, F. A. Faber, O. A. von Lilienfeld, Operators in quantum machine learning: response properties "
    "in chemical space, J. Chem. Phys. 150, 064105 (2019)"
)
ZUO_2020 = (
    "Y. Zuo et al., Performance and cost assessment of machine learning interatomic potentials, J. Phys. Chem. A 124, "
    "731 (2020)"
)
THOMPSON_2015 = (
    "A. P. Thompson et al., Spectral neighbor analysis method for automated generation of quantum-accurate "
    "interatomic potentials, J. Comput. Phys. 285, 316 (2015)"
)
CUSENTINO_2020 = (
    "M. A. Cusentino, M. A. Wood, A. P. Thompson, Explicit multielement extension of the spectral neighbor analysis "
    "potential for chemically complex systems, J. Phys. Chem. A 124, 5456 (2020)"
)
ZHANG_2018 = (
    "L. Zhang et al., Deep potential molecular dynamics: a scalable model with the accuracy of quantum mechanics, "
    "Phys. Rev. Lett. 120, 143001 (2018), doi:10.1103/PhysRevLett.120.143001"
)
CHUNG_2014 = (
    "Y. G. Chung et al., Computation-ready, experimental metal-organic frameworks, Chem. Mater. 26, 6185 (2014)"
)
BERMAN_2000 = "H. M. Berman et al., The Protein Data Bank, Nucleic Acids Res. 28, 235 (2000)"
