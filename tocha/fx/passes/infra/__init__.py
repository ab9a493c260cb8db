"""What passes are made of: their base class, their manager, partitioning."""
