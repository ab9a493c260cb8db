"""Parts of tocha.fx whose form may still change."""
