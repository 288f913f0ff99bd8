# Puts the image IMG in the place of the one that config/manager names.
WITH_IMAGE = sed "s|image: $$(kubectl kustomize config/manager | sed -n 's/^[ -]*image: *//p')$$|image: $(IMG)|"

