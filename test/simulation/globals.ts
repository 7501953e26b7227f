export * from '../../src/testing/kernel/virtual-globals.ts';
