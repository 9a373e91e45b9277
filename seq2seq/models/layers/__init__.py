"""The layers around attention: embeddings, positions, feed-forward, norms, dropout, CPU kernels."""
