"""Random walks through the states of tenants, with a model that predicts every answer."""
