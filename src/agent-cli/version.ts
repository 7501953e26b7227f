/** Of the agent; also told as `claude_code_version`, where hosts look for one. */
export const VERSION = '0.1.0';
