"""WeChat Official Account: callback in, passive replies and customer-service messages out."""
