"""Cards of models and data sets as files: rewritten key by key, found, compared with what they describe."""
