"""Functions with derivatives that the user defines: custom_vjp, custom_jvp."""
