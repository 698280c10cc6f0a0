"""A finished run -> report, review, exports, corrected labels, predictions.

- `run_source`: the data of a run, opened again
- `checking`: new samples, judged by the run and compared with its own
- `gate`: whether checked labels pass, as exit code, JUnit XML and SARIF
- `report/`: the page report.html
- `audit_session`: labels drawn at random, the answers of a person, and the noise rate that follows
- `review/`: the web page of `jnpl review`
- `corrections`: corrected labels from findings and decisions
- `image_folder`: copies of or links to images in folders of their corrected classes
- `same_form`: the data in their own form with corrected labels
- `saved_model`: the trained model of a run, for new data
- `hub`: the model with a model card, as a folder and on the Hugging Face hub
- `predict`: predictions of a saved model as a table
- `export/`: findings and models in other formats
- `output_paths`: which files a command may write
"""
