/** The version of `duolane-agent`. Hosts read it from `claude_code_version`. */
export const VERSION = '0.1.0';
