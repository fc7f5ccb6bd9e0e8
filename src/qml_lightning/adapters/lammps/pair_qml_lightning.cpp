// SPDX-License-Identifier: MIT
//
// The LAMMPS pair style qml/lightning, a plugin on the C interface of QML-Lightning. This file alone is compiled against
// LAMMPS (GPL-2), with which its licence is compatible.
//
//   pair_style qml/lightning [threads N] [precision float32|float64]
//   pair_coeff * * model.safetensors H C O
//   fix uncertain all pair 100 qml/lightning uncertainty 1    (f_uncertain: of the energy of each atom, by the committee)
//
// Every rank predicts the atoms that it owns from their full neighbour lists; forces on ghosts go back to their owners
// by the reverse communication of LAMMPS (newton on).
#include "atom.h"
#include "comm.h"
#include "error.h"
#include "force.h"
#include "memory.h"
#include "neigh_list.h"
#include "neighbor.h"
#include "pair.h"
#include "update.h"

#include "qml_lightning.h"

#include <cstring>
#include <string>
#include <vector>

// PLUGIN/lammpsplugin.h, which is not installed with LAMMPS.
extern "C" {
typedef struct {
  const char *version, *style, *name, *info, *author;
  union {
    void *(*v1)(void *);
    void *(*v2)(void *, int, char **);
  } creator;
  void *handle;
} lammpsplugin_t;
typedef void (*lammpsplugin_regfunc)(lammpsplugin_t *, void *);
}

namespace LAMMPS_NS {
namespace {

const char *const symbols[] = {
    "H",  "He", "Li", "Be", "B",  "C",  "N",  "O",  "F",  "Ne", "Na", "Mg", "Al", "Si", "P",  "S",  "Cl", "Ar", "K",  "Ca",
    "Sc", "Ti", "V",  "Cr", "Mn", "Fe", "Co", "Ni", "Cu", "Zn", "Ga", "Ge", "As", "Se", "Br", "Kr", "Rb", "Sr", "Y",  "Zr",
    "Nb", "Mo", "Tc", "Ru", "Rh", "Pd", "Ag", "Cd", "In", "Sn", "Sb", "Te", "I",  "Xe", "Cs", "Ba", "La", "Ce", "Pr", "Nd",
    "Pm", "Sm", "Eu", "Gd", "Tb", "Dy", "Ho", "Er", "Tm", "Yb", "Lu", "Hf", "Ta", "W",  "Re", "Os", "Ir", "Pt", "Au", "Hg",
    "Tl", "Pb", "Bi", "Po", "At", "Rn", "Fr", "Ra", "Ac", "Th", "Pa", "U",  "Np", "Pu", "Am", "Cm", "Bk", "Cf", "Es", "Fm",
    "Md", "No", "Lr", "Rf", "Db", "Sg", "Bh", "Hs", "Mt", "Ds", "Rg", "Cn", "Nh", "Fl", "Mc", "Lv", "Ts", "Og"};
constexpr int n_symbols = int(sizeof(symbols) / sizeof(symbols[0]));

class PairQMLLightning : public Pair {
public:
  explicit PairQMLLightning(LAMMPS *lmp) : Pair(lmp) {
    restartinfo = 0;
    single_enable = 0;
    one_coeff = 1;
    manybody_flag = 1;
    no_virial_fdotr_compute = 1; // the virial is computed here
    centroidstressflag = CENTROID_NOTAVAIL;
    unit_convert_flag = utils::get_supported_conversions(utils::ENERGY);
  }

  ~PairQMLLightning() override {
    if (copymode) return;
    qml_predictor_destroy(predictor);
    if (allocated) {
      memory->destroy(setflag);
      memory->destroy(cutsq);
    }
  }

  void settings(int narg, char **arg) override {
    for (int i = 0; i < narg; i += 2) {
      if (i + 1 == narg) error->all(FLERR, "pair_style qml/lightning: {} needs a value.", arg[i]);
      if (!std::strcmp(arg[i], "threads")) {
        threads = utils::inumeric(FLERR, arg[i + 1], false, lmp);
        if (threads < 1) error->all(FLERR, "pair_style qml/lightning: threads must be at least 1, got {}.", threads);
      } else if (!std::strcmp(arg[i], "precision")) {
        precision = !std::strcmp(arg[i + 1], "float32") ? 32 : !std::strcmp(arg[i + 1], "float64") ? 64 : -1;
        if (precision < 0)
          error->all(FLERR, "pair_style qml/lightning: the precision is float32 or float64, got {}.", arg[i + 1]);
      } else {
        error->all(FLERR, "pair_style qml/lightning knows threads N and precision float32|float64, got {}.", arg[i]);
      }
    }
  }

  void coeff(int narg, char **arg) override {
    if (narg < 4)
      error->all(FLERR, "pair_coeff of qml/lightning wants * *, a model file, and an element for each of the {} atom "
                        "types: pair_coeff * * model.safetensors H C O", atom->ntypes);
    if (!allocated) {
      memory->create(setflag, atom->ntypes + 1, atom->ntypes + 1, "pair:setflag");
      memory->create(cutsq, atom->ntypes + 1, atom->ntypes + 1, "pair:cutsq");
      map = new int[atom->ntypes + 1];
      allocated = 1;
    }
    if (narg != 3 + atom->ntypes)
      error->all(FLERR, "pair_coeff of qml/lightning wants an element for each of the {} atom types, got {}.",
                 atom->ntypes, narg - 3);
    qml_predictor_destroy(predictor);
    predictor = nullptr;
    if (qml_predictor_load(arg[2], precision, 0.0, &predictor) != QML_OK) error->all(FLERR, "{}", qml_last_error());
    map_element2type(narg - 3, arg + 3);
    element_of_type.assign(size_t(atom->ntypes) + 1, -1);
    for (int type = 1; type <= atom->ntypes; ++type)
      if (map[type] >= 0) element_of_type[size_t(type)] = element_of(elements[map[type]], arg[2]);
  }

  void init_style() override {
    if (force->newton_pair == 0) error->all(FLERR, "pair_style qml/lightning needs newton on for pairs: newton on");
    if (std::strcmp(update->unit_style, "metal") && std::strcmp(update->unit_style, "real"))
      error->all(FLERR, "pair_style qml/lightning needs units metal (eV, Å) or units real, got units {}.",
                 update->unit_style);
    // pairs of weight 0 are not in the lists, and the energy of an atom needs all of its neighbours
    if (atom->molecular != Atom::ATOMIC)
      for (int k = 1; k < 4; ++k)
        if (force->special_lj[k] != 1.0)
          error->all(FLERR, "pair_style qml/lightning needs bonded neighbours too: special_bonds lj/coul 1 1 1");
    scale = std::strcmp(update->unit_style, "real")
                ? 1.0
                : utils::get_conversion_factor(utils::ENERGY, utils::METAL2REAL);
    neighbor->add_request(this, NeighConst::REQ_FULL);
    if (comm->me == 0)
      utils::logmesg(lmp, "qml/lightning: {} elements, cutoff {} A, float{}, {} thread{} in each of {} rank{}, {}\n",
                     qml_predictor_n_elements(predictor), qml_predictor_cutoff(predictor),
                     qml_predictor_precision(predictor), n_threads(), n_threads() > 1 ? "s" : "", comm->nprocs,
                     comm->nprocs > 1 ? "s" : "", qml_isa());
  }

  double init_one(int i, int j) override {
    if (setflag[i][j] == 0) error->all(FLERR, "All pair coeffs are not set: pair_coeff * * model.safetensors …");
    return qml_predictor_cutoff(predictor);
  }

  void compute(int eflag, int vflag) override {
    ev_init(eflag, vflag);
    const int n_all = atom->nlocal + atom->nghost;
    gather(n_all);
    if (uncertainty_flag) spread.assign(size_t(atom->nlocal) + 1, 0.0); // never empty: fix pair takes null for an error
    if (centres.empty()) return;
    energies.resize(centres.size());
    forces.resize(3 * size_t(n_all));
    if (vflag_atom) virials.resize(9 * centres.size());
    double total[9];
    const qml_neighbour_lists lists = {int64_t(centres.size()), n_all,     centres.data(), counts.data(), neighbours.data(),
                                       NEIGHMASK,               0,         element.data(), atom->x[0]};
    if (predict(lists, vflag_global ? total : nullptr, vflag_atom ? virials.data() : nullptr) != QML_OK)
      error->one(FLERR, "{} (step {}, rank {})", qml_last_error(), update->ntimestep, comm->me);

    double *f = atom->f[0];
    for (size_t k = 0; k < 3 * size_t(n_all); ++k) f[k] += scale * forces[k];
    for (size_t i = 0; eflag_global && i < centres.size(); ++i) eng_vdwl += scale * energies[i];
    for (size_t i = 0; eflag_atom && i < centres.size(); ++i) eatom[centres[i]] += scale * energies[i];
    // xx, yy, zz, xy, xz, yz; LAMMPS counts compression positive
    static const int order[6] = {0, 4, 8, 1, 2, 5};
    for (int k = 0; vflag_global && k < 6; ++k) virial[k] -= scale * total[order[k]];
    for (size_t i = 0; vflag_atom && i < centres.size(); ++i)
      for (int k = 0; k < 6; ++k) vatom[centres[i]][k] -= scale * virials[9 * i + size_t(order[k])];
  }

  // fix pair sets this flag in the steps whose uncertainties it wants
  void *extract(const char *name, int &dim) override {
    dim = 0;
    if (std::strcmp(name, "uncertainty_flag")) return nullptr;
    if (predictor && qml_predictor_n_members(predictor) == 0)
      error->all(FLERR, "This model has no committee, so its uncertainty is not known. Train it with --committee 8.");
    return &uncertainty_flag;
  }

  // uncertainty: of the energy of each atom
  void *extract_peratom(const char *name, int &ncol) override {
    ncol = 0;
    return std::strcmp(name, "uncertainty") ? nullptr : spread.data();
  }

  double memory_usage() override {
    return double(energies.capacity() + forces.capacity() + virials.capacity() + spread.capacity()) * sizeof(double) +
           double(element.capacity() + centres.capacity() + counts.capacity()) * sizeof(int);
  }

private:
  qml_predictor *predictor = nullptr;
  int threads = 0, precision = 0; // 0: those of LAMMPS, that of the file
  double scale = 1.0;             // energy in the units of the run, of 1 eV
  std::vector<int32_t> element_of_type, element, centres, counts;
  std::vector<const int32_t *> neighbours;
  std::vector<double> energies, forces, virials;
  int uncertainty_flag = 0;                // uncertainties are wanted in this step
  std::vector<double> spread, of_centres;  // (local atoms) uncertainties, (centres)

  // Prediction into energies and forces, and into `spread` where uncertainties are wanted.
  int32_t predict(const qml_neighbour_lists &lists, double *total, double *of_atoms) {
    if (!uncertainty_flag)
      return qml_predictor_predict_lists(predictor, &lists, energies.data(), forces.data(), total, of_atoms, n_threads());
    of_centres.resize(centres.size());
    const int32_t status = qml_predictor_predict_lists_uncertain(predictor, &lists, energies.data(), forces.data(), total,
                                                                 of_atoms, of_centres.data(), n_threads());
    for (size_t i = 0; i < centres.size(); ++i) spread[size_t(centres[i])] = scale * of_centres[i];
    return status;
  }

  int n_threads() const { return threads ? threads : comm->nthreads > 0 ? comm->nthreads : 1; }

  int32_t element_of(const char *symbol, const char *file) {
    std::string known;
    for (int32_t e = 0; e < qml_predictor_n_elements(predictor); ++e) {
      const int number = qml_predictor_atomic_number(predictor, e);
      const char *name = number >= 1 && number <= n_symbols ? symbols[number - 1] : "?";
      if (!std::strcmp(symbol, name)) return e;
      known += std::string(known.empty() ? "" : ", ") + name;
    }
    error->all(FLERR, "The model {} knows {}, not {}. Name an element of the model for each atom type, or NULL for a type "
                      "that another pair style describes.", file, known, symbol);
    return -1;
  }

  // Elements of all atoms, and the lists of those that the model sees.
  void gather(int n_all) {
    element.resize(size_t(n_all));
    for (int i = 0; i < n_all; ++i) element[size_t(i)] = element_of_type[size_t(atom->type[i])];
    centres.clear(), counts.clear(), neighbours.clear();
    for (int k = 0; k < list->inum; ++k) {
      const int i = list->ilist[k];
      if (element[size_t(i)] < 0) continue;
      centres.push_back(i);
      counts.push_back(list->numneigh[i]);
      neighbours.push_back(list->firstneigh[i]);
    }
  }
};

void *create(void *lmp) { return new PairQMLLightning(static_cast<LAMMPS *>(lmp)); }

} // namespace
} // namespace LAMMPS_NS

extern "C" __attribute__((visibility("default"))) void lammpsplugin_init(void *lmp, void *handle, void *regfunc) {
  LAMMPS_NS::LAMMPS *lammps = static_cast<LAMMPS_NS::LAMMPS *>(lmp);
  // objects of another version may have another layout
  if (lammps->num_ver != QML_LAMMPS_VERSION) {
    lammps->error->all(FLERR, "The plugin qml/lightning was built for LAMMPS version {}, this is {}. Build it anew: "
                              "qml-lightning lammps build", QML_LAMMPS_VERSION, lammps->num_ver);
    return;
  }
  if (qml_abi_version() != QML_ABI_VERSION) {
    lammps->error->all(FLERR, "The plugin qml/lightning was built for version {} of the C interface of qml-lightning, its "
                              "library has {}. Build it anew: qml-lightning lammps build", QML_ABI_VERSION,
                       qml_abi_version());
    return;
  }
  lammpsplugin_t plugin;
  plugin.version = lammps->version;
  plugin.style = "pair";
  plugin.name = "qml/lightning";
  plugin.info = "QML-Lightning potentials";
  plugin.author = "The QML-Lightning developers";
  plugin.creator.v1 = &LAMMPS_NS::create;
  plugin.handle = handle;
  reinterpret_cast<lammpsplugin_regfunc>(regfunc)(&plugin, lmp);
}
