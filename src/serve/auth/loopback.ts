/** Whether an address can be reached from this machine only. */
export const isLoopback = (host: string): boolean =>
  host === 'localhost' || /^\[?::1\]?$/.test(host) || /^127(\.\d{1,3}){3}$/.test(host);
