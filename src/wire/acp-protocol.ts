/** The version of the Agent Client Protocol that both sides of Duolane speak. */
export const ACP_VERSION = 1;

/** The error codes that the Agent Client Protocol adds to those of JSON-RPC. */
export const ACP_ERROR = { authRequired: -32000, notFound: -32002, canceled: -32800 } as const;
