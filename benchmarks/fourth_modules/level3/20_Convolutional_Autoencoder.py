import torch
import torch.nn as nn

class Model(nn.Module):
    """
    Convolutional autoencoder with a dense bottleneck.
    """
    def __init__(self, channels, latent):
        super(Model, self).__init__()
        self.encoder = nn.Sequential(
            nn.Conv2d(channels, 32, 4, stride=2, padding=1),
            nn.LeakyReLU(0.2),
            nn.Conv2d(32, 64, 4, stride=2, padding=1),
            nn.BatchNorm2d(64),
            nn.LeakyReLU(0.2),
            nn.Conv2d(64, 128, 4, stride=2, padding=1),
            nn.BatchNorm2d(128),
            nn.LeakyReLU(0.2),
        )
        self.to_latent = nn.Linear(128 * 16 * 16, latent)
        self.from_latent = nn.Linear(latent, 128 * 16 * 16)
        self.decoder = nn.Sequential(
            nn.ConvTranspose2d(128, 64, 4, stride=2, padding=1),
            nn.BatchNorm2d(64),
            nn.ReLU(),
            nn.ConvTranspose2d(64, 32, 4, stride=2, padding=1),
            nn.BatchNorm2d(32),
            nn.ReLU(),
            nn.ConvTranspose2d(32, channels, 4, stride=2, padding=1),
            nn.Sigmoid(),
        )

    def encode(self, x):
        return self.to_latent(torch.flatten(self.encoder(x), start_dim=1))

    def decode(self, z):
        return self.decoder(self.from_latent(z).view(-1, 128, 16, 16))

    def forward(self, x):
        return self.decode(self.encode(x))

batch_size = 128
channels = 3
latent = 256

def get_inputs():
    return [torch.rand(batch_size, channels, 128, 128)]

def get_init_inputs():
    return [channels, latent]
