"""Problems, simulations, and studies made of many of them."""
