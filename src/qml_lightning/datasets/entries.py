"""The entries of the catalogue: public data sets with file, units, level of theory, licence and citation."""

from __future__ import annotations

from dataclasses import dataclass

from ..atoms.units import Units
from .citations import (
    BATATIA_2022,
    BERMAN_2000,
    CHMIELA_2017,
    CHRISTENSEN_2019,
    CHRISTENSEN_2020,
    CHUNG_2014,
    CUSENTINO_2020,
    KOVACS_2021,
    RAMAKRISHNAN_2014,
    RUPP_2012,
    THOMPSON_2015,
    ZHANG_2018,
    ZUO_2020,
)

KCAL = Units("kcal/mol", "Å")
EV = Units("eV", "Å")
HARTREE = Units("Hartree", "Å")


@dataclass(frozen=True)
class Download:
    """A public file on the net, and how far its content is known."""

    url: str
    digits: str  # SHA-256 of what the address gives, or its first digits where only these are published
    name: str  # of the file to keep
    member: str = ""  # file of the archive to read; empty: what the address gives is the file
    units: Units = EV
    note: str = ""  # difference from the file of the entry


@dataclass(frozen=True)
class Entry:
    """One public data set: a file with a checksum in a folder of the user, a download, or both."""

    name: str
    units: Units  # of the file
    theory: str
    licence: str  # of the source
    citation: str
    file: str = ""  # path in the data folder; empty: there is a download only
    sha256: str = ""
    n_structures: int | None = None  # in the file, or else in the download; None: not known
    splits: tuple[str, ...] = ()  # stored in the file
    energy_key: str = ""  # key of the energies, if it is not `energies`
    download: Download | None = None


RMD17_THEORY = "PBE/def2-SVP, very tight SCF, dense grid"
RMD17_SPLITS = ("train_01", "test_01", "train_02", "test_02", "train_03", "test_03")
RMD17_NOTE = "the full trajectory, without the official splits"


def _rmd17(molecule: str) -> Download:
    """One molecule of the public archive of rMD17."""
    return Download(
        url="https://figshare.com/ndownloader/files/23950376",
        digits="cddeea2ec2c4",
        name="rmd17.tar.bz2",
        member=f"rmd17/npz_data/rmd17_{molecule}.npz",
        units=KCAL,
        note=RMD17_NOTE,
    )


RMD17_SHA256 = {
    "aspirin": "0433581c7f0dfd308c9248216978b5c9d149dcf040dc25034c1affc1b25f385c",
    "benzene": "6eb5750e2a5eec67147c85dc7e744f0c406c4f99091a463b4f929610cd31ccd1",
    "ethanol": "26db7c30463f02a88fbd8cb8bb16e6e83a66447363471d54a1e17a5485e8cf57",
    "malonaldehyde": "977968a664eca0eba05b35305c8fcfb64a3d297a788cfe97818165964b39f59e",
    "naphthalene": "9340272455a6d4bd6399c773c2b51638d1ded216304cbba6597e1681b28a8d46",
    "salicylic": "5f20c7cfb36c4193331a749e1054bec15235cb297648dbf9e30125f9def62b3c",
    "toluene": "446d8ce80007c81ad8b2fe5b22663199896a2a00ab2eaa17ced95c97a881ba5a",
    "uracil": "3d38953e7ebb8d4a3eff5e8be98944224472a8bb6288aa07fc928380fd191142",
}
MD17_SHA256 = {
    "aspirin": "3f28bf4e4a4cb512193f7b881bb29b6b2280f98cc80285064104d4547ca2add1",
    "ethanol": "d74abb1ece54893b35ce07235fe5232df351ff29babdf2255d83cef5b16ada24",
    "uracil": "65d259176a90a08896ece40a4b11535fe3aa1e4333016716718545a3000283b8",
}
ZUO_2020_FILES = {  # frames, licence of the source, checksum
    "Li": (270, "BSD-3-Clause", "ec71f298ef8aa6f2a8fa6d513ce7493b54cfee6262decfe8f82b26345c9cf108"),
    "Mo": (217, "BSD-3-Clause", "1b10924a17f6fab594dea88709d02cfdd7e6975f4ec279ccfc1b7a0ce4476240"),
    "Si": (239, "BSD-3-Clause", "336c7d6ca01eb3f15cf06089eab761e4832d005fc906760ce2982945c9fff1e5"),
    "Cu": (293, "none stated (ACEData)", "fde104f40f770b810e3935af266a5e6343f26a9546c95a46011df0f5263818fe"),
}
GEOMETRIES = {  # licence, citation, checksum
    "mof_vujbei": ("MIT-style", CHUNG_2014, "a7681139d1d029cb3aa08ca095322e7bfc94d937ce21a1daf995e7fe09284fe7"),
    "myoglobin_1mbn_apo_h": (
        "CC0-1.0",
        BERMAN_2000,
        "3b02b311753ee645f8d97ceda47347eef596a2a36f3bdbc71f5994d520550c61",
    ),
    "protein_1hz5": ("CC0-1.0", BERMAN_2000, "06ab09a3ad2c412e68c183cec296958fe3de7a4bd2b3b230564c6c258973300d"),
    "protein_1c17": ("CC0-1.0", BERMAN_2000, "fadc4658b174969571cc48ac1aa6dcff47e78080bb8144811f6352f2edc206a4"),
    "water_6540": ("Apache-2.0", "", "f114409eea151bc57503752334fdbc046bdacd978eff18d1d41da2dedce8a034"),
}

EMBEDDED = Entry(
    name="ethanol",
    units=KCAL,
    theory=RMD17_THEORY,
    licence="CC0-1.0",
    citation=CHRISTENSEN_2020,
    file="ethanol.npz",
    sha256="3c836eabdaa44bf8fd20e5869b388954ea7776bdbcb09086aefd24b4b973968c",
    n_structures=1500,
    splits=("train", "test"),
)

FILES = (
    EMBEDDED,
    *(
        Entry(
            name=f"rmd17_{molecule}",
            units=KCAL,
            theory=RMD17_THEORY,
            licence="CC0-1.0",
            citation=CHRISTENSEN_2020,
            file=f"rmd17/rmd17_{molecule}.npz",
            sha256=sha256,
            n_structures=5902,
            splits=RMD17_SPLITS,
            download=_rmd17(molecule),
        )
        for molecule, sha256 in RMD17_SHA256.items()
    ),
    *(
        Entry(
            name=f"md17_{molecule}_2k",
            units=KCAL,
            theory="PBE+vdW-TS (noisy labels)",
            licence="CC0-1.0",
            citation=f"{CHMIELA_2017}\n{CHRISTENSEN_2020}",
            file=f"md17/md17_{molecule}_2k.npz",
            sha256=sha256,
            n_structures=2000,
            splits=("train", "test"),
        )
        for molecule, sha256 in MD17_SHA256.items()
    ),
    Entry(
        name="3bpa",
        units=EV,
        theory="ωB97X/6-31G(d)",
        licence="MIT",
        citation=f"{KOVACS_2021}\n{BATATIA_2022}",
        file="3bpa/3bpa.npz",
        sha256="cb3b0d5cbb0aa70a461ae2f5dff61d9ec70377a055edc8fffe283b38731fcf42",
        n_structures=734,
        splits=("train_300K", "test_mixedT"),
    ),
    Entry(
        name="ethanol_extra",
        units=EV,
        theory="PBE/def2-SVP (UHF for dissociation)",
        licence="MIT",
        citation=f"{CHRISTENSEN_2020}\n{BATATIA_2022}",
        file="ethanol_extra/ethanol_extra.npz",
        sha256="e509427dcf03fdf78533ecfb6a7a1ad46ca4cbdb9d184d090964bee92446f08d",
        n_structures=989,
        splits=("H_removal", "norm_mode_874", "norm_mode_3005", "dimers", "methanol_train", "methanol_test"),
    ),
    Entry(
        name="qm9",
        units=HARTREE,
        theory="B3LYP/6-31G(2df,p), equilibrium geometries, U0",
        licence="MIT (qm9pack)",
        citation=RAMAKRISHNAN_2014,
        file="qm9/qm9.npz",
        sha256="cfb674dae98ab77c1241d913e61f6dddd17c99c166f22d86daaa83ca7fc40a9f",
        n_structures=115831,
        splits=("train_pool", "test"),
        energy_key="U0",
    ),
    Entry(
        name="qm7",
        units=KCAL,
        theory="PBE0 atomisation energies",
        licence="MIT",
        citation=RUPP_2012,
        file="qm7/qm7.npz",
        sha256="62b50343c5733dd9ec0c0948157830a04296dba5e72486c4dd02a7d43fc0666a",
        n_structures=7101,
        splits=("train", "test"),
        energy_key="atomization_energies",
    ),
    Entry(
        name="small_mols",
        units=KCAL,
        theory="DFT, not stated by the source",
        licence="MIT",
        citation=CHRISTENSEN_2019,
        file="small_mols/small_mols.npz",
        sha256="a7be663a7b95b53bf9b11939e217935f24b8c9fe3842b0498160477237fb3222",
        n_structures=3377,
        splits=("train", "valid", "test", "train_kf"),
    ),
    *(
        Entry(
            name=f"zuo2020_{element}",
            units=EV,
            theory="PBE, VASP",
            licence=licence,
            citation=ZUO_2020,
            file=f"zuo2020/{element}.npz",
            sha256=sha256,
            n_structures=n_structures,
            splits=("train", "test"),
        )
        for element, (n_structures, licence, sha256) in ZUO_2020_FILES.items()
    ),
    Entry(
        name="snap_Ta",
        units=EV,
        theory="DFT",
        licence="GPL-2.0 (repository)",
        citation=THOMPSON_2015,
        file="snap/Ta.npz",
        sha256="dad51a678c5906bb92378d59f891016e7880cda9f2d9de94bf749e61a247b317",
        n_structures=363,
        splits=("train", "test"),
    ),
    Entry(
        name="snap_InP",
        units=EV,
        theory="DFT (LDA in the file names)",
        licence="GPL-2.0 (repository)",
        citation=CUSENTINO_2020,
        file="snap/InP.npz",
        sha256="1d52210a3ef04b0b5015428bd6b914681ea3fad1d3231136c19018d132c72ade",
        n_structures=1802,
        splits=("train", "test"),
    ),
    Entry(
        name="water_pbe0ts",
        units=EV,
        theory="PBE0+TS",
        licence="LGPL-3.0 (repository)",
        citation=ZHANG_2018,
        file="water/water_pbe0ts.npz",
        sha256="e1293c9480c43e258512277ee57275a64b846c6a9109912c8119ca5748641cb6",
        n_structures=320,
        splits=("train", "test"),
    ),
    *(
        Entry(
            name=name,
            units=EV,
            theory="geometry only",
            licence=licence,
            citation=citation,
            file=f"structures/{name}.extxyz.xz",
            sha256=sha256,
            n_structures=1,
        )
        for name, (licence, citation, sha256) in GEOMETRIES.items()
    ),
)

# Copies of public files beside the load-atoms library, which published the digits below.
GITHUB = "https://github.com/jla-gardner/load-atoms/raw/main/database"

# Sets that are downloaded: name, number of frames if known, level of theory, licence, citation, file on the net.
DOWNLOADED = (
    (
        "C-GAP-17",
        4530,
        "DFT (LDA)",
        "CC BY-NC-SA 4.0",
        "V. L. Deringer, G. Csányi, Phys. Rev. B 95, 094203 (2017), doi:10.1103/PhysRevB.95.094203",
        Download(f"{GITHUB}/C-GAP-17/C-GAP-17.extxyz", "8dd037b59c88", "C-GAP-17.extxyz"),
    ),
    (
        "C-GAP-20U",
        None,
        "DFT",
        "GPL-3.0",
        "P. Rowe et al., J. Chem. Phys. 153, 034702 (2020), doi:10.1063/5.0005084",
        Download(f"{GITHUB}/C-GAP-20U/C-GAP-20U.xyz", "da0462802df1", "C-GAP-20U.xyz"),
    ),
    (
        "Si-GAP-18",
        None,
        "PW91, CASTEP",
        "CC BY-NC-SA 4.0",
        "A. P. Bartók et al., Phys. Rev. X 8, 041048 (2018)",
        Download(
            "https://zenodo.org/record/1250555/files/libAtoms/silicon-testing-framework-v1.0.zip",
            "97eb063f9655",
            "silicon-testing-framework-v1.0.zip",
            "libAtoms-silicon-testing-framework-fc252cb/models/GAP/gp_iter6_sparse9k.xml.xyz",
        ),
    ),
    (
        "P-GAP-20",
        None,
        "DFT + MBD",
        "CC BY 4.0",
        "V. L. Deringer, M. A. Caro, G. Csányi, Nat. Commun. 11, 5461 (2020), doi:10.1038/s41467-020-19168-z",
        Download(
            "https://zenodo.org/record/4003703/files/P_GAP_20_fitting_data.xyz",
            "ab3059018068",
            "P_GAP_20_fitting_data.xyz",
        ),
    ),
    (
        "GST-GAP-22",
        None,
        "PBE",
        "CC BY 4.0",
        "Y. Zhou et al., Nat. Electron. 6, 746 (2023), doi:10.1038/s41928-023-01030-x",
        Download(f"{GITHUB}/GST-GAP-22/refitted_GST-GAP-22_PBE.xyz", "e4c467026dc0", "refitted_GST-GAP-22_PBE.xyz"),
    ),
    (
        "SiO2-GAP-22",
        None,
        "SCAN",
        "CC BY 4.0",
        "L. C. Erhard et al., npj Comput. Mater. 8, 90 (2022)",
        Download(
            "https://zenodo.org/records/6353684/files/sio2_potential_data.zip",
            "98ea6e58f6d9",
            "sio2_potential_data.zip",
            "sio2_potential_data/database/dataset.scan.2.xyz",
        ),
    ),
    (
        "SiOx-ACE-24",
        None,
        "SCAN",
        "CC BY 4.0",
        "L. C. Erhard et al., Nat. Commun. 15, 1927 (2024), doi:10.1038/s41467-024-45840-9",
        Download(
            "https://zenodo.org/records/10419194/files/database.zip",
            "42eb5808b0aa",
            "SiOx-ACE-24.zip",
            "database/training.general_purpose.SiOx.xyz",
        ),
    ),
    (
        "GO-MACE-23",
        None,
        "PBE, CASTEP",
        "CC BY 4.0",
        "Z. El-Machachi et al., Angew. Chem. Int. Ed. (2024), doi:10.1002/anie.202410088",
        Download(f"{GITHUB}/GO-MACE-23/GO-MACE-23.extxyz", "aeb61b35a44b", "GO-MACE-23.extxyz"),
    ),
)

ENTRIES = (
    *FILES,
    *(
        Entry(
            name=f"rmd17_{molecule}",
            units=EV,
            theory=RMD17_THEORY,
            licence="CC0-1.0",
            citation=CHRISTENSEN_2020,
            download=_rmd17(molecule),
        )
        for molecule in ("azobenzene", "paracetamol")
    ),
    *(
        Entry(
            name=name,
            units=EV,
            theory=theory,
            licence=licence,
            citation=citation,
            n_structures=n_structures,
            download=download,
        )
        for name, n_structures, theory, licence, citation, download in DOWNLOADED
    ),
)
