// The one Trusted Types policy. It gives out two constant script addresses and refuses every other.

declare const WORKER_ADDRESS: string;
declare const FRAME_ADDRESS: string;

export const workerAddress = WORKER_ADDRESS;
export const frameAddress = FRAME_ADDRESS;
export const serviceWorkerAddress = "/sw.js";

interface TrustedTypesFactory {
  createPolicy(name: string, rules: { createScriptURL(address: string): string }): { createScriptURL(address: string): unknown };
}

const factory = (globalThis as { trustedTypes?: TrustedTypesFactory }).trustedTypes;
const policy = factory?.createPolicy("own", { createScriptURL: checkAddress });

function checkAddress(address: string): string {
  if (address !== workerAddress && address !== serviceWorkerAddress) throw new TypeError(`not a script of this page: ${address}`);
  return address;
}

/** A script address that the browser accepts for workers. */
export function scriptAddress(address: string): string {
  return (policy ? policy.createScriptURL(address) : checkAddress(address)) as string;
}
