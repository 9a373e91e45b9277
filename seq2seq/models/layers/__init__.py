"""The layers around attention: embeddings, positions, feed-forward networks, norms, dropout."""
