"""From labelled structures to a potential: problem, plan, rows, equations, solvers, checkpoints."""
