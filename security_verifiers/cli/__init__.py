"""The `sv` command: one file a noun, nothing imported before it is needed."""
