"""The paper's figures and tables: one file each, listed in `catalogue`.

- `fig1`, `fig2`, `fig3`, `fig4`, `fig5`, `fig6`, `table1`, `table2`: what the paper claims, the runs, the drawing or
  text, and the rule for the verdict.
- `beyond`: tables that are not in the paper: human labels, a linear head, when PL+ begins, class weights, NL+ with
  100 classes.
- `experiment`: what a figure or table has; `paper_runs`: stored runs by what the paper calls them.
- `output`: captions, and the output folder with index.html.
- `drawing`: what several figures share.
- `cost`: GPU hours of the paper's scale, estimated.
"""
