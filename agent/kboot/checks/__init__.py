"""Doctor's questions, one a module. `kboot.checks.every` lists them; nothing here, so that one module costs one."""
