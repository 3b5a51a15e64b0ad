import torch
import torch.nn as nn

class Model(nn.Module):
    """
    A reduced AlexNet with batch norm for 128x128 images; the dropouts are off.
    """
    def __init__(self, num_classes=100):
        super(Model, self).__init__()
        self.features = nn.Sequential(
            nn.Conv2d(3, 48, kernel_size=11, stride=4, padding=2),
            nn.BatchNorm2d(48),
            nn.ReLU(inplace=True),
            nn.MaxPool2d(kernel_size=3, stride=2),
            nn.Conv2d(48, 128, kernel_size=5, padding=2),
            nn.BatchNorm2d(128),
            nn.ReLU(inplace=True),
            nn.MaxPool2d(kernel_size=3, stride=2),
            nn.Conv2d(128, 192, kernel_size=3, padding=1),
            nn.BatchNorm2d(192),
            nn.ReLU(inplace=True),
            nn.Conv2d(192, 128, kernel_size=3, padding=1),
            nn.BatchNorm2d(128),
            nn.ReLU(inplace=True),
            nn.MaxPool2d(kernel_size=3, stride=2),
        )
        self.classifier = nn.Sequential(
            nn.Dropout(p=0.0),
            nn.Linear(128 * 3 * 3, 1024),
            nn.ReLU(inplace=True),
            nn.Dropout(p=0.0),
            nn.Linear(1024, num_classes),
        )

    def forward(self, x):
        x = self.features(x)
        x = torch.flatten(x, 1)
        return self.classifier(x)

batch_size = 512
num_classes = 100

def get_inputs():
    return [torch.rand(batch_size, 3, 128, 128)]

def get_init_inputs():
    return [num_classes]
