"""What the scaler relies on in a cluster, as cases that every implementation of KubeApi has to
pass."""
