/**
 * Whether an app of a tool server may declare the address: https or wss, and nothing that could end
 * a directive of its policy. Apps reach no plain HTTP, which also keeps them from services of the
 * user's own machine and network that have no TLS.
 */
export const isAppAddress = (address: string): boolean =>
  address.length <= MAX_CHARS &&
  /^(https|wss):\/\/(\*\.)?[a-z\d-]+(\.[a-z\d-]+)*(:\d{1,5})?\/?$/i.test(address);

const MAX_CHARS = 300;
