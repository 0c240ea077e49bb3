"""What makes and proves the course: exercises, experiments, recipes of stored models, training at scale, pages."""
