"""scikit-learn: the classifier in a pipeline and a grid search, and its findings about the labels.

Run it: python examples/sklearn_pipeline.py
"""

from sklearn.datasets import load_digits
from sklearn.decomposition import PCA
from sklearn.model_selection import GridSearchCV, train_test_split
from sklearn.pipeline import make_pipeline

from jnpl import JNPLClassifier, metrics, noise

images, labels = load_digits(return_X_y=True)
x_train, x_test, true_labels, y_test = train_test_split(images, labels, test_size=400, random_state=0, stratify=labels)
y_train = noise.symmetric(true_labels, rate=0.4, num_classes=10, seed=0)  # 40 % of the labels are wrong

pipeline = make_pipeline(PCA(whiten=True, random_state=0), JNPLClassifier(epochs=6, random_state=0))
search = GridSearchCV(pipeline, {"pca__n_components": [16, 32]}, cv=2).fit(x_train, y_train)

model = search.best_estimator_["jnplclassifier"]  # fitted on all of the training data
print(model.findings_.worst(5)[["given_label", "suggested_label", "label_quality"]])
ap = metrics.average_precision(model.label_quality_, y_train != true_labels)
print(f"{search.best_params_}: test accuracy {search.score(x_test, y_test):.3f}")
print(f"{model.findings_.is_label_issue.sum()} of {len(y_train)} labels look wrong; AP of the ranking {ap:.3f}")
